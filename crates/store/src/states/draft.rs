//! A state on its way in: written beside its place, and there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_evidence::Digest;
use sha2::{Digest as _, Sha256};

use super::{CONTENT, DOCUMENT, StateAbout, StateId, StateKind, StateRow, States};
use crate::error::{At, StoreError};
use crate::home::write_whole;
use crate::journal::now;
use crate::registry::damaged;

const TRIES: usize = 16;

/// A state whose tar is being written. Dropping it leaves nothing.
#[derive(Debug)]
pub struct StateDraft {
    states: States,
    folder: PathBuf,
    file: BufWriter<File>,
    hasher: Sha256,
    bytes: u64,
}

/// Where something is that is on its way in or out: for each another name, by which a sweep knows its process.
pub(super) fn new_path(states: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    states.join(format!("draft-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

impl StateDraft {
    pub(super) fn begin(states: &States) -> Result<Self, StoreError> {
        let folder = new_path(&states.folder);
        DirBuilder::new().mode(0o700).create(&folder).at("make", &folder)?;
        let path = folder.join(CONTENT);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).at("make", &path)?;
        Ok(Self { states: states.clone(), folder, file: BufWriter::with_capacity(256 << 10, file), hasher: Sha256::new(), bytes: 0 })
    }

    /// Puts it in its place, in that of an earlier one of its name if it has one. Durable once this returns; until then the earlier one stays.
    /// Whoever saves under a name holds its [`StateLock`](super::StateLock).
    ///
    /// # Errors
    /// [`StoreError::StatesFull`] if its tenant would keep more than it may: nothing is kept then.
    pub fn put(mut self, said: StateAbout) -> Result<StateRow, StoreError> {
        let content = self.folder.join(CONTENT);
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).at("write", &content)?;
        let folder = self.states.folder_of(&said)?;
        let _placing = self.states.placing(said.tenant.as_deref(), said.name.as_deref(), self.bytes)?;
        let earlier = if said.kind == StateKind::Named { self.states.all_in(&folder)? } else { Vec::new() };
        let created_at = now();
        let state = StateRow {
            id: StateId::new().at("name", &self.folder)?,
            generation: earlier.iter().map(|state| state.generation + 1).max().unwrap_or(0),
            used_at: created_at.clone(),
            created_at,
            bytes: self.bytes,
            sha256: Digest::from_bytes(self.hasher.clone().finalize().into()),
            said,
        };
        self.place(&state, &folder)?;
        earlier.iter().try_for_each(|earlier| self.states.remove(earlier))?;
        Ok(state)
    }

    fn place(&self, state: &StateRow, folder: &Path) -> Result<(), StoreError> {
        let path = self.folder.join(DOCUMENT);
        let mut text = serde_json::to_vec_pretty(state).map_err(|error| damaged(&path, &error.to_string()))?;
        text.push(b'\n');
        write_whole(&path, &text, 0o600)?; // and the folder, with both names in it
        let place = folder.join(state.id.as_str());
        self.rename_to(&place, folder)?;
        let flush = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all()).at("flush", folder);
        let flushed = flush(folder).and_then(|()| flush(folder.parent().unwrap_or(folder)));
        if flushed.is_err() {
            // What may not last is not there at all; the error is what matters.
            self.states.take_away(&place).unwrap_or_default();
        }
        flushed
    }

    /// A sweep may remove the folder of a name while nothing is in it.
    fn rename_to(&self, place: &Path, folder: &Path) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).at("make", folder)?;
            match fs::rename(&self.folder, place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.folder.exists() => {}
                renamed => return renamed.at("make", place),
            }
        }
        Err(io::Error::from(io::ErrorKind::NotFound)).at("make", place)
    }
}

impl Write for StateDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for StateDraft {
    /// What was put in its place is no longer here; what was not is of no use, and a sweep takes what cannot be removed now.
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap_or_default();
    }
}
