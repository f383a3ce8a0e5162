//! Unpacking what a stranger packed, into no more memory than it declared: what is longer is refused as soon as one byte more comes out.

use std::io::Read;

use flate2::bufread::ZlibDecoder;

/// Why packed bytes are not what they are said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnpackFault {
    /// The bytes are not zlib's.
    #[error("does not unpack: it is not zlib's, or damaged")]
    Broken,
    /// Fewer or more bytes come out than the block's first line says.
    #[error("unpacks to {} than the {declared} bytes that its first line says", if *.is_longer { "more" } else { "fewer" })]
    Length {
        /// What the first line says.
        declared: usize,
        /// Whether there are more.
        is_longer: bool,
    },
    /// Something follows the packed bytes.
    #[error("goes on after its packed bytes end")]
    Trailing,
}

/// Unpacks exactly `declared` bytes, which the caller found small enough.
pub(crate) fn unpack(packed: &[u8], declared: usize) -> Result<Vec<u8>, UnpackFault> {
    let mut decoder = ZlibDecoder::new(packed);
    let mut out = Vec::new();
    // One byte more than declared is enough to know, and the check of the sum is done on the read that finds the end.
    decoder.by_ref().take(declared as u64 + 1).read_to_end(&mut out).map_err(|_| UnpackFault::Broken)?;
    if out.len() != declared {
        return Err(UnpackFault::Length { declared, is_longer: out.len() > declared });
    }
    if decoder.into_inner().is_empty() { Ok(out) } else { Err(UnpackFault::Trailing) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn says(packed: &[u8], declared: usize) -> String {
        unpack(packed, declared).unwrap_err().to_string()
    }

    #[test]
    fn only_what_was_declared_comes_out() {
        let bytes = packed(&vec![7; 1 << 20]);
        assert_eq!(unpack(&bytes, 1 << 20).unwrap(), vec![7; 1 << 20]);
        assert_eq!(unpack(&packed(b""), 0).unwrap(), b"");
        assert_eq!(says(&bytes, 10), "unpacks to more than the 10 bytes that its first line says");
        assert_eq!(says(&bytes, 1 << 21), "unpacks to fewer than the 2097152 bytes that its first line says");
    }

    #[test]
    fn what_is_broken_cut_or_followed_by_more_is_refused() {
        let bytes = packed(b"some text, some text");
        assert_eq!(says(&[bytes.as_slice(), b"x"].concat(), 20), "goes on after its packed bytes end");
        assert!(says(&bytes[..bytes.len() - 1], 20).starts_with("does not unpack"));
        assert!(says(b"garbage", 7).starts_with("does not unpack"));
        let mut wrong_sum = bytes.clone();
        *wrong_sum.last_mut().unwrap() ^= 1;
        assert!(says(&wrong_sum, 20).starts_with("does not unpack"));
    }
}
