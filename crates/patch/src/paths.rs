//! The order of paths in which a folder's content follows the folder, with nothing between.

use std::cmp::Ordering;

/// Compares as if a slash were less than every other byte.
pub(crate) fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    a.iter().map(key).cmp(b.iter().map(key))
}

/// True if `path` is below `folder`.
pub(crate) fn is_within(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}

/// The folders that a path is in, the outermost first.
pub(crate) fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_folder_follows_it() {
        let mut paths = ["a-b", "a", "a/c", "a/b/c", "b", "a b"];
        paths.sort_by(|a, b| in_order(a.as_bytes(), b.as_bytes()));
        assert_eq!(paths, ["a", "a/b/c", "a/c", "a b", "a-b", "b"]);
        assert!(is_within(b"a/b", b"a") && !is_within(b"ab", b"a") && !is_within(b"a", b"a"));
        assert_eq!(folders(b"a/b/c").collect::<Vec<_>>(), [b"a".as_slice(), b"a/b"]);
    }
}
