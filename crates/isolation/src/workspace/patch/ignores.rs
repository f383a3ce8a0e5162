//! What the base ignores, as gitignore(5) has it.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::super::beneath;
use crate::text::OsText;

/// The base's ignore files, each for its own folder; the deepest that has an opinion decides, as in gitignore(5).
pub(super) struct Ignores {
    by_folder: Vec<(Vec<u8>, Gitignore)>,
}

impl Ignores {
    pub(super) fn of(base: &Path) -> Self {
        let mut by_folder = Vec::new();
        let mut waiting = vec![Vec::new()];
        while let Some(folder) = waiting.pop() {
            let full = base.join(OsText::from(folder.as_slice()).as_os_str());
            for entry in std::fs::read_dir(&full).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name == ".gitignore" {
                    by_folder.push((folder.clone(), matcher(&entry.path())));
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && name != ".git" {
                    waiting.push(beneath::join(&folder, name.as_encoded_bytes()));
                }
            }
        }
        by_folder.push((Vec::new(), matcher(&base.join(".git/info/exclude"))));
        by_folder.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Self { by_folder }
    }

    /// As in git, what is in an ignored folder stays ignored, whatever is said of it.
    pub(super) fn ignore(&self, path: &[u8]) -> bool {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        folders.into_iter().any(|folder| self.ignores_one(folder, true)) || self.ignores_one(path, false)
    }

    fn ignores_one(&self, path: &[u8], is_folder: bool) -> bool {
        let inside = |folder: &[u8]| match folder {
            [] => Some(path),
            folder => path.strip_prefix(folder).and_then(|rest| rest.strip_prefix(b"/")),
        };
        let verdict = self.by_folder.iter().find_map(|(folder, rules)| {
            let relative = OsText::from(inside(folder)?);
            match rules.matched(relative.as_os_str(), is_folder) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        verdict.unwrap_or(false)
    }
}

/// Rules that do not parse ignore nothing. As in git, a link is not followed; a pipe would keep us waiting.
fn matcher(file: &Path) -> Gitignore {
    // The paths asked about are relative to the file's folder already, so no root is to be cut off.
    let mut builder = GitignoreBuilder::new("/");
    if std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file()) {
        builder.add(file);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
