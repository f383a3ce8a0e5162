//! Measures what is read: how much, its digest, and no more than was allowed.

use std::fmt;
use std::io::{self, Read};

use ringfence_policy::ImageDigest;
use sha2::{Digest, Sha256};

use crate::error::ImageError;

/// Reads on, and keeps the digest of all that was read.
pub(crate) struct Measured<R> {
    reader: R,
    digest: Sha256,
    bytes: u64,
    most: u64,
    cap: u64,
}

/// More was sent than allowed.
#[derive(Debug)]
struct CapReached(u64);

impl fmt::Display for CapReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes", self.0)
    }
}

impl std::error::Error for CapReached {}

/// What the error of a reader says, if it is the cap.
pub(crate) fn as_cap(error: &io::Error) -> Option<ImageError> {
    let reached = error.get_ref()?.downcast_ref::<CapReached>()?;
    Some(ImageError::TooMuch { what: "bytes", most: reached.0 })
}

impl<R: Read> Measured<R> {
    /// Reads at most `most` bytes, what is left of `cap`.
    pub(crate) fn new(reader: R, most: u64, cap: u64) -> Self {
        Self { reader, digest: Sha256::new(), bytes: 0, most, cap }
    }

    /// Reads to the end; answers with the length and the digest of everything.
    pub(crate) fn finish(mut self) -> io::Result<(u64, ImageDigest)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.bytes, digest(&self.digest.finalize())))
    }
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.bytes += read as u64;
        if self.bytes > self.most {
            return Err(io::Error::other(CapReached(self.cap)));
        }
        self.digest.update(&buffer[..read]);
        Ok(read)
    }
}

/// The digest of some bytes.
pub(crate) fn digest_of(bytes: &[u8]) -> ImageDigest {
    digest(&Sha256::digest(bytes))
}

fn digest(bytes: &[u8]) -> ImageDigest {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}").parse().unwrap_or_else(|_| unreachable!("INVARIANT (digest): 32 bytes are 64 digits"))
}
