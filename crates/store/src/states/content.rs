//! The tar of a state, hashed while it is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringfence_evidence::Digest;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::StateRow;
use crate::error::{At, StoreError};
use crate::registry::damaged;

/// A tar that is being read. Nothing that was read from it counts before [`finish`](Self::finish).
#[derive(Debug)]
pub struct StateContent {
    file: File,
    path: PathBuf,
    hasher: Sha256,
    bytes: u64,
    wanted: (Digest, u64),
}

impl StateContent {
    pub(super) fn open(path: &Path, state: &StateRow) -> Result<Self, StoreError> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).at("read", path)?;
        if !file.metadata().at("read", path)?.is_file() {
            return Err(damaged(path, "it is not a regular file"));
        }
        Ok(Self { file, path: path.to_owned(), hasher: Sha256::new(), bytes: 0, wanted: (state.sha256, state.bytes) })
    }

    /// Reads what is left, and says whether all of it is what was saved.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        io::copy(&mut self, &mut io::sink()).at("read", &path)?;
        let found = (Digest::from_bytes(self.hasher.finalize().into()), self.bytes);
        match found == self.wanted {
            true => Ok(()),
            false => Err(damaged(&path, &format!("its digest is {}, not {} as its document says", found.0, self.wanted.0))),
        }
    }
}

impl Read for StateContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}
