//! Words that whoever writes a file from outside lays down beside it: extended attributes `user.e2b.NAME`, as E2B's own daemon keeps them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{XattrFlags, fsetxattr, getxattr, listxattr, removexattr};
use rustix::io::Errno;

const PREFIX: &str = "user.e2b.";
/// Bytes of all names of a file's attributes, and of one value.
const NAMES: usize = 64 << 10;
const VALUE: usize = 4096;

/// What stands beside a file. Where its file system keeps none, nothing does.
pub(crate) fn of(handle: &OwnedFd) -> BTreeMap<String, String> {
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let words = names(&path).into_iter().filter_map(|name| {
        let mut value = vec![0; VALUE];
        let length = getxattr(&path, format!("{PREFIX}{name}"), &mut value).ok()?;
        Some((name, String::from_utf8(value.get(..length)?.to_vec()).ok()?))
    });
    words.collect()
}

/// Replaces all that stands beside a file.
pub(crate) fn set(file: &OwnedFd, words: &BTreeMap<String, String>) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    for name in names(&path).into_iter().filter(|name| !words.contains_key(name)) {
        removexattr(&path, format!("{PREFIX}{name}"))?;
    }
    words.iter().try_for_each(|(name, value)| fsetxattr(file.as_fd(), format!("{PREFIX}{name}"), value.as_bytes(), XattrFlags::empty()))
}

fn names(path: &str) -> Vec<String> {
    let mut list = vec![0u8; NAMES];
    let Ok(length) = listxattr(path, &mut list) else { return Vec::new() };
    let names = list.get(..length).unwrap_or_default().split(|byte| *byte == 0);
    names.filter_map(|name| Some(std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.to_owned())).collect()
}
