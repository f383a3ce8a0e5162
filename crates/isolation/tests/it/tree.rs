//! A folder tree as a value: written to disk, read back, compared as a whole. Folders are only the way to what is in them, as in git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};
use tempfile::TempDir;

/// What stands at a path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Node {
    File { is_executable: bool, bytes: Vec<u8> },
    Link(Vec<u8>),
    Special,
}

/// Paths and what stands there.
pub(crate) type Tree = BTreeMap<Vec<u8>, Node>;

pub(crate) fn file(bytes: impl AsRef<[u8]>) -> Node {
    Node::File { is_executable: false, bytes: bytes.as_ref().to_vec() }
}

pub(crate) fn program(bytes: impl AsRef<[u8]>) -> Node {
    Node::File { is_executable: true, bytes: bytes.as_ref().to_vec() }
}

pub(crate) fn link(target: impl AsRef<[u8]>) -> Node {
    Node::Link(target.as_ref().to_vec())
}

pub(crate) fn tree<P: AsRef<[u8]>>(nodes: impl IntoIterator<Item = (P, Node)>) -> Tree {
    nodes.into_iter().map(|(path, node)| (path.as_ref().to_vec(), node)).collect()
}

/// The head of long content is enough to know it by.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { is_executable, bytes } => {
                let kind = if *is_executable { "program" } else { "file" };
                write!(f, "{kind} of {} bytes \"{}\"", bytes.len(), bytes[..bytes.len().min(300)].escape_ascii())
            }
            Self::Link(target) => write!(f, "link to \"{}\"", target.escape_ascii()),
            Self::Special => f.write_str("special"),
        }
    }
}

/// Where a path of bytes is below a folder.
pub(crate) fn at(folder: &Path, path: impl AsRef<[u8]>) -> PathBuf {
    folder.join(OsStr::from_bytes(path.as_ref()))
}

/// Makes the tree in `folder`, which need not exist. A special node becomes a pipe.
pub(crate) fn write(tree: &Tree, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (path, node) in tree {
        let path = at(folder, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::File { is_executable, bytes } => {
                fs::write(&path, bytes).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(if *is_executable { 0o755 } else { 0o644 })).unwrap();
            }
            Node::Link(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
            Node::Special => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap(),
        }
    }
}

/// Reads the tree in `folder`. Executable is what its owner may execute, as in git.
pub(crate) fn read(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(inner) = waiting.pop() {
        for entry in fs::read_dir(folder.join(&inner)).unwrap() {
            let path = inner.join(entry.unwrap().file_name());
            let full = folder.join(&path);
            let meta = fs::symlink_metadata(&full).unwrap();
            let node = if meta.is_dir() {
                waiting.push(path);
                continue;
            } else if meta.is_symlink() {
                link(fs::read_link(&full).unwrap().as_os_str().as_bytes())
            } else if meta.is_file() {
                Node::File { is_executable: meta.permissions().mode() & 0o100 != 0, bytes: fs::read(&full).unwrap() }
            } else {
                Node::Special
            };
            tree.insert(path.as_os_str().as_bytes().to_vec(), node);
        }
    }
    tree
}

/// Makes `depth` folders named `d`, each in the one before, and returns the last; paths longer than the kernel takes can be made so.
pub(crate) fn descend(folder: &Path, depth: usize) -> OwnedFd {
    let mut at = OwnedFd::from(File::open(folder).unwrap());
    for _ in 0..depth {
        mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, "d", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    at
}

/// Removes a tree of any depth, which the standard library cannot.
pub(crate) fn remove(folder: TempDir) {
    let folder = folder.keep();
    assert!(Command::new("rm").arg("-rf").arg("--").arg(&folder).status().unwrap().success());
}

/// A descriptor of the folder.
pub(crate) fn open(folder: &Path) -> File {
    File::open(folder).unwrap()
}

/// Bytes that look like nothing and are the same each time (xorshift).
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}
