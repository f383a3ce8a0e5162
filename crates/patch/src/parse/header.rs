//! The lines between `diff --git` and the content: each at most once, and none that contradicts another.

use super::error::{Fault, PatchError};
use super::lines::Lines;
use super::modes::mode;
use super::names::name;
use crate::ids::LONG_ID;
use crate::mode::Mode;
use crate::patch::{Action, Ids};
use crate::visible::shown;

/// What the header of a section says.
#[derive(Debug, Default)]
pub(super) struct Header {
    old_mode: Option<Mode>,
    new_mode: Option<Mode>,
    made: Option<Mode>,
    gone: Option<Mode>,
    rename_from: Option<Vec<u8>>,
    rename_to: Option<Vec<u8>>,
    copy_from: Option<Vec<u8>>,
    copy_to: Option<Vec<u8>>,
    alike: Option<()>,
    unlike: Option<()>,
    index: Option<Index>,
}

#[derive(Debug)]
struct Index {
    ids: Ids,
    mode: Option<Mode>,
}

impl Header {
    pub(super) fn parse(lines: &mut Lines<'_>) -> Result<Self, PatchError> {
        let mut header = Self::default();
        while let Some(line) = lines.peek() {
            let is_known = header.read(line).map_err(|fault| lines.fault(fault))?;
            if !is_known {
                break;
            }
            lines.next();
        }
        Ok(header)
    }

    /// Reads one line, if it is of a header.
    fn read(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let after = |start: &str| line.strip_prefix(start.as_bytes());
        if let Some(text) = after("old mode ") {
            set(&mut self.old_mode, line, mode(text, "changes"))?;
        } else if let Some(text) = after("new mode ") {
            set(&mut self.new_mode, line, mode(text, "makes"))?;
        } else if let Some(text) = after("new file mode ") {
            set(&mut self.made, line, mode(text, "makes"))?;
        } else if let Some(text) = after("deleted file mode ") {
            set(&mut self.gone, line, mode(text, "removes"))?;
        } else if let Some(text) = after("rename from ") {
            set(&mut self.rename_from, line, name(text))?;
        } else if let Some(text) = after("rename to ") {
            set(&mut self.rename_to, line, name(text))?;
        } else if let Some(text) = after("copy from ") {
            set(&mut self.copy_from, line, name(text))?;
        } else if let Some(text) = after("copy to ") {
            set(&mut self.copy_to, line, name(text))?;
        } else if let Some(text) = after("similarity index ") {
            set(&mut self.alike, line, percent(text, line))?;
        } else if let Some(text) = after("dissimilarity index ") {
            set(&mut self.unlike, line, percent(text, line))?;
        } else if let Some(text) = after("index ") {
            set(&mut self.index, line, index(text, line))?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Where a renamed or copied file comes from and goes to.
    pub(super) fn moved(&self) -> Option<(&[u8], &[u8])> {
        let rename = self.rename_from.as_deref().zip(self.rename_to.as_deref());
        rename.or_else(|| self.copy_from.as_deref().zip(self.copy_to.as_deref()))
    }

    /// What happens to the file, if only one thing does.
    pub(super) fn action(&self) -> Result<Action, Fault> {
        let contradiction = |what| Err(Fault::Contradiction(what));
        let renames = (self.rename_from.is_some(), self.rename_to.is_some());
        let copies = (self.copy_from.is_some(), self.copy_to.is_some());
        if renames.0 != renames.1 || copies.0 != copies.1 {
            return contradiction("a file is renamed or copied, and only one of its two names is told");
        }
        if self.old_mode.is_some() != self.new_mode.is_some() {
            return contradiction("the mode is changed, and only one of the two modes is told");
        }
        if self.moved().is_some_and(|(from, to)| from == to) {
            return contradiction("a file is renamed or copied to the name that it has");
        }
        let kinds = [self.made.is_some(), self.gone.is_some(), renames.0, copies.0];
        if kinds.iter().filter(|is_so| **is_so).count() > 1 || (self.old_mode.is_some() && kinds[..2].contains(&true)) {
            return contradiction("a file is made, removed, renamed, copied or gets another mode, and only one of these can be so");
        }
        if self.index.as_ref().is_some_and(|index| index.mode.is_some()) && (self.old_mode.is_some() || kinds[..2].contains(&true)) {
            return contradiction("the mode is told twice");
        }
        self.zeros()?;
        Ok(match (&self.rename_from, &self.copy_from) {
            (Some(from), _) => Action::Rename(from.clone()),
            (None, Some(from)) => Action::Copy(from.clone()),
            (None, None) if self.made.is_some() => Action::Add,
            (None, None) if self.gone.is_some() => Action::Remove,
            (None, None) => Action::Modify,
        })
    }

    /// An id of zeros stands for no file, and only for that.
    fn zeros(&self) -> Result<(), Fault> {
        let Some(Index { ids, .. }) = &self.index else { return Ok(()) };
        let is_zeros = |id: &str| id.bytes().all(|digit| digit == b'0');
        match (is_zeros(&ids.old), is_zeros(&ids.new)) == (self.made.is_some(), self.gone.is_some()) {
            true => Ok(()),
            false => Err(Fault::Contradiction("the ids say of a side that it is there, or not, and the header says the opposite")),
        }
    }

    /// The mode before and the mode after, where they are told.
    pub(super) fn modes(&self) -> (Option<Mode>, Option<Mode>) {
        let kept = self.index.as_ref().and_then(|index| index.mode);
        (self.old_mode.or(self.gone).or(kept), self.new_mode.or(self.made).or(kept))
    }

    pub(super) fn ids(&self) -> Option<&Ids> {
        self.index.as_ref().map(|index| &index.ids)
    }

    pub(super) fn into_ids(self) -> Option<Ids> {
        self.index.map(|index| index.ids)
    }
}

/// Says one thing once.
fn set<T>(place: &mut Option<T>, line: &[u8], value: Result<T, Fault>) -> Result<(), Fault> {
    match place {
        Some(_) => Err(Fault::Twice(shown(line))),
        None => {
            *place = Some(value?);
            Ok(())
        }
    }
}

/// It says how git found a rename, which changes nothing.
fn percent(text: &[u8], line: &[u8]) -> Result<(), Fault> {
    let number = text.strip_suffix(b"%").filter(|digits| matches!(digits.len(), 1..=3) && digits.iter().all(u8::is_ascii_digit));
    let value = number.map(|digits| digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')));
    value.filter(|value| *value <= 100).map(|_| ()).ok_or_else(|| Fault::Unknown(shown(line)))
}

/// `OLD..NEW`, and the mode where it stays.
fn index(text: &[u8], line: &[u8]) -> Result<Index, Fault> {
    let fault = || Fault::Index(shown(line));
    let end = text.iter().position(|byte| *byte == b' ');
    let (ids, kept) = end.map_or((text, None), |end| (&text[..end], Some(&text[end + 1..])));
    let dots = ids.windows(2).position(|pair| pair == b"..").ok_or_else(fault)?;
    let ids = Ids { old: id(&ids[..dots]).ok_or_else(fault)?, new: id(&ids[dots + 2..]).ok_or_else(fault)? };
    Ok(Index { ids, mode: kept.map(|text| mode(text, "changes")).transpose()? })
}

fn id(text: &[u8]) -> Option<String> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = (4..=LONG_ID).contains(&text.len()) && text.iter().all(is_digit);
    is_id.then(|| text.iter().map(|byte| char::from(*byte)).collect())
}
