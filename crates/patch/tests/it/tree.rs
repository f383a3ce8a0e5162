//! Trees in memory, as bases and as what edits make of them.

use std::collections::BTreeMap;
use std::io;

use ringfence_patch::{ApplyError, Base, BaseEntry, Blob, Edit, Limits, Mode, Patch, PatchError, write};

/// Files by path; links and submodules where a test puts them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tree(pub(crate) BTreeMap<Vec<u8>, BaseEntry>);

impl Base for Tree {
    fn entry(&self, path: &[u8]) -> io::Result<Option<BaseEntry>> {
        let inside = [path, b"/"].concat();
        let is_folder = self.0.keys().any(|other| other.starts_with(&inside));
        Ok(self.0.get(path).cloned().or(is_folder.then_some(BaseEntry::Folder)))
    }

    fn names(&self, folder: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        let inside = [folder, b"/"].concat();
        let rest = self.0.keys().filter_map(|path| path.strip_prefix(inside.as_slice()));
        Ok(Some(rest.map(|rest| rest.split(|byte| *byte == b'/').next().unwrap().to_vec()).collect()))
    }
}

pub(crate) fn plain(bytes: impl AsRef<[u8]>) -> Blob {
    Blob { mode: Mode::Plain, bytes: bytes.as_ref().to_vec() }
}

pub(crate) fn program(bytes: impl AsRef<[u8]>) -> Blob {
    Blob { mode: Mode::Executable, bytes: bytes.as_ref().to_vec() }
}

impl Tree {
    /// A tree of ordinary files.
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let mut tree = Self::default();
        files.iter().for_each(|(path, text)| tree.put(path.as_bytes(), &plain(text)));
        tree
    }

    pub(crate) fn put(&mut self, path: &[u8], blob: &Blob) {
        self.0.insert(path.to_vec(), BaseEntry::File { mode: blob.mode.bits(), bytes: blob.bytes.clone() });
    }

    pub(crate) fn with(mut self, path: &str, entry: BaseEntry) -> Self {
        self.0.insert(path.as_bytes().to_vec(), entry);
        self
    }

    pub(crate) fn blob(&self, path: &[u8]) -> Option<Blob> {
        match self.0.get(path)? {
            BaseEntry::File { mode, bytes } => Some(Blob { mode: Mode::from_bits(*mode).unwrap(), bytes: bytes.clone() }),
            other @ (BaseEntry::Folder | BaseEntry::Link | BaseEntry::Gitlink) => panic!("{other:?}"),
        }
    }

    /// The patch that leads to another tree, as ringfence writes it.
    pub(crate) fn patch_to(&self, changed: &Self) -> Vec<u8> {
        let mut out = b"ringfence changes: some paths\n".to_vec();
        let paths: std::collections::BTreeSet<_> = self.0.keys().chain(changed.0.keys()).collect();
        for path in paths {
            let (old, new) = (self.blob(path), changed.blob(path));
            write(path, old.as_ref().map(Into::into), new.as_ref().map(Into::into), &mut out).unwrap();
        }
        out
    }

    /// The edits performed, in their order.
    pub(crate) fn edited(&self, edits: &[Edit]) -> Self {
        let mut tree = self.clone();
        for edit in edits {
            assert_eq!(tree.blob(&edit.path), edit.old);
            assert_ne!(edit.old, edit.new);
            tree.0.remove(&edit.path);
            if let Some(new) = &edit.new {
                assert_eq!(tree.entry(&edit.path).unwrap(), None, "{}", edit.path.escape_ascii());
                tree.put(&edit.path, new);
            }
        }
        tree
    }
}

pub(crate) fn parse(text: impl AsRef<[u8]>) -> Result<Patch, PatchError> {
    Patch::parse(text.as_ref(), &Limits::default())
}

pub(crate) fn apply(base: &Tree, text: impl AsRef<[u8]>) -> Result<Vec<Edit>, ApplyError> {
    parse(text).unwrap().apply(base)
}

/// What is said of a patch that is refused as it stands.
pub(crate) fn refusal(text: impl AsRef<[u8]>) -> String {
    parse(&text).expect_err(&String::from_utf8_lossy(text.as_ref())).to_string()
}

/// What is said of a patch that does not fit.
pub(crate) fn misfit(base: &Tree, text: impl AsRef<[u8]>) -> String {
    apply(base, &text).expect_err(&String::from_utf8_lossy(text.as_ref())).to_string()
}
