//! What a reviewer of a patch must not miss: the first line, which git skips.

use ringfence_patch::{plain_or_quoted, starts_programs};

use super::super::beneath::Entry;
use crate::text::OsText;

/// Names of one kind on the summary line; the rest are counted.
const NAMED: usize = 40;

/// What the summary line says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchSummary {
    /// Paths that are in the patch.
    pub changed: u64,
    /// Symbolic links made or changed.
    pub links: Vec<OsText>,
    /// Files that became executable or stopped to be.
    pub modes: Vec<OsText>,
    /// Files that start programs when a folder is opened, built or committed.
    pub starts_programs: Vec<OsText>,
    /// Changes left out because the base ignores them.
    pub ignored: u64,
    /// Changes left out because they are in `.git`.
    pub in_git: u64,
    /// Changes left out for another reason, with the reason.
    pub refused: Vec<(OsText, String)>,
}

impl PatchSummary {
    /// Notes a change that goes into the patch.
    pub(super) fn note(&mut self, path: &[u8], old: &Entry, new: &Entry) {
        let name = OsText::from(path);
        self.changed += 1;
        if matches!(new, Entry::Link { .. }) {
            self.links.push(name.clone());
        }
        let executable = |entry: &Entry| matches!(entry, Entry::File { is_executable: true, .. });
        if executable(old) != executable(new) && *new != Entry::Missing {
            self.modes.push(name.clone());
        }
        if *new != Entry::Missing && starts_programs(path) {
            self.starts_programs.push(name);
        }
    }

    /// One line that git takes for a comment. Names are quoted where they hold anything that could be taken for the line's own words.
    pub(super) fn line(&self) -> String {
        let list = |what: &str, names: &[OsText]| match names.len() {
            0 => String::new(),
            count => {
                let named: Vec<String> = names.iter().take(NAMED).map(|name| plain_or_quoted(name.as_bytes())).collect();
                let more = if count > NAMED { format!(", and {} more", count - NAMED) } else { String::new() };
                format!("; {what}: {}{more}", named.join(", "))
            }
        };
        let count = |what: &str, number: u64| if number > 0 { format!("; {what}: {number}") } else { String::new() };
        let refused: Vec<OsText> = self.refused.iter().map(|(path, _)| path.clone()).collect();
        format!(
            "ringfence changes: {} paths{}{}{}{}{}{}\n",
            self.changed,
            count("ignored and left out", self.ignored),
            count("in .git and left out", self.in_git),
            list("start programs", &self.starts_programs),
            list("links", &self.links),
            list("mode changes", &self.modes),
            list("refused", &refused),
        )
    }
}
