//! Hunks: as many lines as they say, in order, each of which changes something.

use super::error::{Fault, PatchError};
use super::lines::Lines;
use crate::hunks::Sign;
use crate::patch::{Action, Hunk};
use crate::visible::shown;

const NO_NEWLINE: &[u8] = b"\\ No newline at end of file";

/// All hunks of a file; at least one.
pub(super) fn all(action: &Action, lines: &mut Lines<'_>) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut order = Order::default();
    while let Some(header) = lines.peek().filter(|line| line.starts_with(b"@@ ")) {
        let spans = Spans::parse(header).ok_or_else(|| lines.fault(Fault::HunkHeader(shown(header))))?;
        order.follow(&spans).map_err(|fault| lines.fault(fault))?;
        let line = lines.number();
        lines.next();
        let mut body = Body::new(&spans);
        body.read(lines)?;
        order.is_at_end |= body.has_ended.contains(&true);
        hunks.push(body.finish(line, &spans).map_err(|fault| PatchError { line, fault })?);
    }
    if hunks.is_empty() {
        return Err(lines.fault(Fault::HunkHeader(lines.peek().map(shown).unwrap_or_default())));
    }
    is_all_of_the_file(action, &hunks).map_err(|what| PatchError { line: hunks[0].line, fault: Fault::Contradiction(what) })?;
    Ok(hunks)
}

/// A file that is made has no old lines, one that is removed no new ones.
fn is_all_of_the_file(action: &Action, hunks: &[Hunk]) -> Result<(), &'static str> {
    match action {
        Action::Add if hunks.iter().any(|hunk| hunk.counts.0 > 0) => Err("a file that is made has no lines before"),
        Action::Remove if hunks.iter().any(|hunk| hunk.counts.1 > 0) => Err("a file that is removed has no lines after"),
        Action::Add | Action::Remove | Action::Modify | Action::Rename(_) | Action::Copy(_) => Ok(()),
    }
}

/// `@@ -start,count +start,count @@`
struct Spans {
    old: Span,
    new: Span,
}

struct Span {
    start: usize,
    count: usize,
}

impl Span {
    /// Lines before it. A span of no lines names the line that it comes after.
    fn before(&self) -> usize {
        if self.count == 0 { self.start } else { self.start - 1 }
    }
}

impl Spans {
    fn parse(header: &[u8]) -> Option<Self> {
        let text = header.strip_prefix(b"@@ -")?;
        let (old, text) = span(text)?;
        let (new, text) = span(text.strip_prefix(b" +")?)?;
        let heading = text.strip_prefix(b" @@")?;
        (heading.is_empty() || heading.starts_with(b" ")).then_some(Self { old, new })
    }
}

fn span(text: &[u8]) -> Option<(Span, &[u8])> {
    let (start, text) = number(text)?;
    let (count, text) = match text.strip_prefix(b",") {
        Some(text) => number(text)?,
        None => (1, text),
    };
    (count == 0 || start > 0).then_some((Span { start, count }, text))
}

/// A number of at most nine digits: more lines than any limit lets pass.
fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0usize, |value, digit| value.wrapping_mul(10).wrapping_add(usize::from(digit - b'0')));
    (1..=9).contains(&digits).then_some((value, &text[digits..]))
}

/// Where the hunks so far have led.
#[derive(Default)]
struct Order {
    old: usize,
    new: usize,
    is_at_end: bool,
}

impl Order {
    fn follow(&mut self, spans: &Spans) -> Result<(), Fault> {
        let between = spans.old.before().checked_sub(self.old).ok_or(Fault::Overlap)?;
        if self.is_at_end {
            return Err(Fault::AfterEnd);
        }
        if spans.new.before() != self.new + between {
            let is = self.new + between + usize::from(spans.new.count > 0);
            return Err(Fault::NewStart { said: spans.new.start, is });
        }
        (self.old, self.new) = (spans.old.before() + spans.old.count, spans.new.before() + spans.new.count);
        Ok(())
    }
}

/// The lines of a hunk while they are read.
struct Body {
    /// How many lines are still to come, old and new.
    left: [usize; 2],
    /// Both sides' text.
    text: [Vec<u8>; 2],
    /// Whether a side's last line had no newline.
    has_ended: [bool; 2],
    last: Option<Sign>,
    leading: usize,
    trailing: usize,
    has_change: bool,
}

impl Body {
    fn new(spans: &Spans) -> Self {
        Self {
            left: [spans.old.count, spans.new.count],
            text: Default::default(),
            has_ended: [false; 2],
            last: None,
            leading: 0,
            trailing: 0,
            has_change: false,
        }
    }

    fn read(&mut self, lines: &mut Lines<'_>) -> Result<(), PatchError> {
        while self.left != [0, 0] {
            let line = lines.peek().unwrap_or(b"diff");
            self.line(line).map_err(|fault| lines.fault(fault))?;
            lines.next();
        }
        while let Some(line) = lines.peek().filter(|line| line.starts_with(b"\\")) {
            self.line(line).map_err(|fault| lines.fault(fault))?;
            lines.next();
        }
        // A signature is `-- `; any other sign here is a line too many.
        match lines.peek() {
            Some(line) if line != b"-- " && matches!(line.first(), Some(b' ' | b'+' | b'-')) => Err(lines.fault(Fault::HunkLong)),
            Some(_) | None => Ok(()),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Fault> {
        match line.split_first() {
            Some((b' ', text)) => self.push(Sign::Same, text),
            // Some programs cut the space off an empty line.
            None => self.push(Sign::Same, b""),
            Some((b'-', text)) => self.push(Sign::Removed, text),
            Some((b'+', text)) => self.push(Sign::Added, text),
            Some((b'\\', _)) => self.end(line),
            Some(_) => Err(Fault::HunkShort { old: self.left[0], new: self.left[1] }),
        }
    }

    fn push(&mut self, sign: Sign, text: &[u8]) -> Result<(), Fault> {
        for side in sides(sign) {
            if self.has_ended[*side] {
                return Err(Fault::AfterEnd);
            }
            self.left[*side] = self.left[*side].checked_sub(1).ok_or(Fault::HunkLong)?;
            self.text[*side].extend_from_slice(text);
            self.text[*side].push(b'\n');
        }
        self.has_change |= sign != Sign::Same;
        self.trailing = if sign == Sign::Same { self.trailing + 1 } else { 0 };
        self.leading += usize::from(!self.has_change);
        self.last = Some(sign);
        Ok(())
    }

    /// The line before has no newline at its end.
    fn end(&mut self, line: &[u8]) -> Result<(), Fault> {
        let fault = || Fault::NoNewline(shown(line));
        let sign = self.last.take().filter(|_| line == NO_NEWLINE).ok_or_else(fault)?;
        for side in sides(sign) {
            self.text[*side].pop();
            self.has_ended[*side] = true;
        }
        Ok(())
    }

    fn finish(self, line: usize, spans: &Spans) -> Result<Hunk, Fault> {
        let [before, after] = self.text;
        if !self.has_change || before == after {
            return Err(Fault::HunkSame);
        }
        Ok(Hunk {
            line,
            after_lines: spans.old.before(),
            counts: (spans.old.count, spans.new.count),
            context: (self.leading, self.trailing),
            before,
            after,
        })
    }
}

/// The sides on which a line stands.
fn sides(sign: Sign) -> &'static [usize] {
    match sign {
        Sign::Same => &[0, 1],
        Sign::Removed => &[0],
        Sign::Added => &[1],
    }
}
