//! How much a stranger's patch may be, and may make: what it says it holds is compared with these before anything is unpacked.

/// The most of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Length of the patch.
    pub patch_bytes: usize,
    /// Files that it changes.
    pub files: usize,
    /// Length of one file that it makes or changes.
    pub file_bytes: usize,
    /// Length of everything that it makes, together with what it unpacks.
    pub result_bytes: usize,
}

impl Default for Limits {
    /// Generous for what a person can be asked to read.
    fn default() -> Self {
        Self { patch_bytes: 64 << 20, files: 10_000, file_bytes: 32 << 20, result_bytes: 256 << 20 }
    }
}

/// Counts what is made; what is refused is not made.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    left: usize,
}

/// Which limit is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitFault {
    /// The patch.
    #[error("is {0} bytes long, more than the limit of {1}")]
    Patch(usize, usize),
    /// The number of files.
    #[error("changes more than {0} files")]
    Files(usize),
    /// One file.
    #[error("makes a file of {0} bytes, more than the limit of {1}")]
    File(usize, usize),
    /// All files.
    #[error("makes more than {0} bytes in all")]
    Results(usize),
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, left: limits.result_bytes }
    }

    /// Takes room for one file's content.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), LimitFault> {
        if bytes > self.limits.file_bytes {
            return Err(LimitFault::File(bytes, self.limits.file_bytes));
        }
        self.left = self.left.checked_sub(bytes).ok_or(LimitFault::Results(self.limits.result_bytes))?;
        Ok(())
    }
}
