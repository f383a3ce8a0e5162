//! Trees of a repository: listed, read and written as they are, by ids and bytes alone. No attribute, filter or line-end setting has a say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::Mutex;

use ringfence_patch::{Base, BaseEntry, Edit};

use super::command::Git;
use crate::promotion::error::PromotionError;

/// One path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    pub(crate) mode: u32,
    pub(crate) id: String,
}

impl TreeEntry {
    pub(crate) fn is_link(&self) -> bool {
        self.mode == 0o120_000
    }

    pub(crate) fn is_repository(&self) -> bool {
        self.mode == 0o160_000
    }
}

/// Every file, link and submodule of a tree by its path.
pub(crate) type Entries = BTreeMap<Vec<u8>, TreeEntry>;

impl Git {
    /// The entries of a tree or commit.
    pub(super) fn entries(&self, tree: &str) -> Result<Entries, PromotionError> {
        let listed = self.run(&["ls-tree", "-r", "-z", "--full-tree", tree], b"", &[])?;
        let bad = || PromotionError::Git { act: "ls-tree".into(), cause: "a line that does not read".into() };
        listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(|line| entry(line).ok_or_else(bad)).collect()
    }

    /// The tree that edits make of another one, and no other: it is listed again and compared. The index is a file of its own, made for this.
    pub(super) fn write_tree(&self, base: &str, entries: &Entries, edits: &[Edit]) -> Result<String, PromotionError> {
        let index = self.folder().join("ringfence-index");
        let name = index.to_string_lossy();
        let own = [("GIT_INDEX_FILE", name.as_ref())];
        self.run(&["read-tree", base], b"", &own)?;
        let mut wanted = entries.clone();
        for edit in edits {
            match &edit.new {
                Some(blob) => wanted.insert(edit.path.clone(), TreeEntry { mode: blob.mode.bits(), id: self.write_blob(&blob.bytes)? }),
                None => wanted.remove(&edit.path),
            };
        }
        self.run(&["update-index", "-z", "--index-info"], &index_lines(edits, &wanted, base.len()), &own)?;
        let tree = self.word(&["write-tree"], b"", &own)?;
        match self.entries(&tree)? == wanted {
            true => Ok(tree),
            false => Err(PromotionError::Git { act: "write-tree".into(), cause: "made another tree than the edits say".into() }),
        }
    }

    fn write_blob(&self, bytes: &[u8]) -> Result<String, PromotionError> {
        self.word(&["hash-object", "-w", "--no-filters", "-t", "blob", "--stdin"], bytes, &[])
    }

    /// A reader of many blobs.
    pub(super) fn blobs(&self) -> Result<Blobs, PromotionError> {
        let mut child = self.open(&["cat-file", "--batch"])?;
        let output = child.stdout.take().map(BufReader::new);
        Ok(Blobs { child, output })
    }
}

/// What `update-index --index-info` reads; mode 0 takes a path away.
fn index_lines(edits: &[Edit], wanted: &Entries, id_length: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    // What goes makes room first: a folder may stand where a file was.
    let (gone, there): (Vec<&Edit>, Vec<&Edit>) = edits.iter().partition(|edit| edit.new.is_none());
    for edit in gone.into_iter().chain(there) {
        let head = match wanted.get(&edit.path) {
            Some(entry) => format!("{:o} {}\t", entry.mode, entry.id),
            None => format!("0 {}\t", "0".repeat(id_length)),
        };
        lines.extend_from_slice(head.as_bytes());
        lines.extend_from_slice(&edit.path);
        lines.push(0);
    }
    lines
}

/// `MODE TYPE ID<tab>PATH`.
fn entry(line: &[u8]) -> Option<(Vec<u8>, TreeEntry)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&line[..tab]).ok()?;
    let mut words = head.split(' ');
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let id = words.nth(1)?.to_owned();
    Some((line[tab + 1..].to_vec(), TreeEntry { mode, id }))
}

/// No file of a branch that is looked at is longer: it is held in memory.
const LONGEST: u64 = 1 << 30;

/// `git cat-file --batch`, asked for one blob after the other.
#[derive(Debug)]
pub(in crate::promotion) struct Blobs {
    child: Child,
    output: Option<BufReader<std::process::ChildStdout>>,
}

impl Blobs {
    /// The bytes of a blob.
    pub(in crate::promotion) fn read(&mut self, id: &str) -> io::Result<Vec<u8>> {
        let (Some(input), Some(output)) = (self.child.stdin.as_mut(), self.output.as_mut()) else {
            return Err(io::Error::other("git has no pipes"));
        };
        input.write_all(format!("{id}\n").as_bytes())?;
        input.flush()?;
        let mut head = String::new();
        output.read_line(&mut head)?;
        let length = head.trim_end().strip_prefix(&format!("{id} blob ")).and_then(|length| length.parse::<u64>().ok());
        let length = length.ok_or_else(|| io::Error::other(format!("blob {id} is not there: {}", head.trim_end().escape_debug())))?;
        if length > LONGEST {
            return Err(io::Error::other(format!("blob {id} is {length} bytes long, more than {LONGEST}")));
        }
        let mut bytes = Vec::new();
        output.by_ref().take(length).read_to_end(&mut bytes)?;
        output.read_exact(&mut [0])?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // One that was left in the middle of a blob would wait for ever for somebody to read it.
        drop(self.output.take());
        // It ends when its input does; there is nothing to learn from how.
        drop(self.child.wait());
    }
}

fn first_part(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The base as the patch sees it.
pub(super) struct TreeBase<'a> {
    pub(super) entries: &'a Entries,
    pub(super) blobs: Mutex<Blobs>,
}

impl Base for TreeBase<'_> {
    fn entry(&self, path: &[u8]) -> io::Result<Option<BaseEntry>> {
        let Some(found) = self.entries.get(path) else {
            let folder = [path, b"/"].concat();
            let is_folder = self.entries.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder));
            return Ok(is_folder.then_some(BaseEntry::Folder));
        };
        if found.is_link() {
            return Ok(Some(BaseEntry::Link));
        }
        if found.is_repository() {
            return Ok(Some(BaseEntry::Gitlink));
        }
        let bytes = self.blobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).read(&found.id)?;
        Ok(Some(BaseEntry::File { mode: found.mode, bytes }))
    }

    fn names(&self, folder: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        let within = [folder, b"/"].concat();
        let beneath = self.entries.range(within.clone()..).map(|(path, _)| path).take_while(|path| path.starts_with(&within));
        let names: BTreeSet<Vec<u8>> = beneath.map(|path| first_part(&path[within.len()..]).to_vec()).collect();
        Ok(Some(names.into_iter().collect()))
    }
}
