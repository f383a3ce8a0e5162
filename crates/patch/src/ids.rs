//! The names that content has: git's ids of blobs, by either of its hashes, and the digest that ringfence writes everywhere.

use std::fmt::Write;

use sha1::{Digest, Sha1};
use sha2::Sha256;

/// Hexadecimal digits of an id by SHA-1.
pub(crate) const SHORT_ID: usize = 40;
/// Hexadecimal digits of an id by SHA-256.
pub(crate) const LONG_ID: usize = 64;

/// The id of a blob, as git computes it in a repository whose ids have this many digits; zeros for nothing.
pub(crate) fn blob_id(bytes: Option<&[u8]>, digits: usize) -> String {
    let Some(bytes) = bytes else { return "0".repeat(digits) };
    let header = format!("blob {}\0", bytes.len());
    match digits {
        LONG_ID => hex(&Sha256::new().chain_update(header).chain_update(bytes).finalize()),
        _ => hex(&Sha1::new().chain_update(header).chain_update(bytes).finalize()),
    }
}

/// `sha256:` and the digest of content.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(blob_id(Some(b""), SHORT_ID), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(Some(b"a\n"), SHORT_ID), "78981922613b2afb6025042ff6bd878ac1994e85");
        assert_eq!(blob_id(Some(b""), LONG_ID), "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813");
        assert_eq!(blob_id(None, SHORT_ID), "0000000000000000000000000000000000000000");
    }
}
