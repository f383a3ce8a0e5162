//! The folder of one promotion: its evidence, and the turn of whoever moves it on, which the kernel lets go of however its process ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_evidence::{Digest, canonical};
use ringfence_store::{Home, write_whole};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::error::PromotionError;

/// The folder, for as long as this process has the turn.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    work: PathBuf,
    _turn: File,
}

impl Folder {
    /// Takes the turn, waiting for whoever has it.
    pub(super) fn take_turn(home: &Home, promotion: &str) -> Result<Self, PromotionError> {
        Self::lock(home, promotion, FlockOperation::LockExclusive)
    }

    /// Takes the turn if nobody has it.
    pub(super) fn try_turn(home: &Home, promotion: &str) -> Result<Option<Self>, PromotionError> {
        match Self::lock(home, promotion, FlockOperation::NonBlockingLockExclusive) {
            Err(PromotionError::File { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => Ok(None),
            taken => taken.map(Some),
        }
    }

    fn lock(home: &Home, promotion: &str, operation: FlockOperation) -> Result<Self, PromotionError> {
        let path = home.promotions().join(promotion);
        let work = home.work().join(format!("promotion-{promotion}"));
        make(&path)?;
        let place = path.join("lock");
        let failed = |source: io::Error| PromotionError::File { act: "lock", path: place.clone(), source };
        let turn = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&place).map_err(failed)?;
        loop {
            match flock(&turn, operation) {
                Ok(()) => return Ok(Self { path, work, _turn: turn }),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }

    /// An empty folder for what is needed meanwhile, in place of one that a process left that is gone.
    pub(super) fn fresh_work(&self) -> Result<&Path, PromotionError> {
        self.clear()?;
        make(&self.work)?;
        Ok(&self.work)
    }

    /// Takes away what was needed meanwhile.
    pub(super) fn clear(&self) -> Result<(), PromotionError> {
        match fs::remove_dir_all(&self.work) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(PromotionError::File { act: "remove", path: self.work.clone(), source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Keeps a file of evidence, whole and durably, and answers with its digest.
    pub(super) fn keep(&self, name: &str, bytes: &[u8]) -> Result<Digest, PromotionError> {
        write_whole(&self.path.join(name), bytes, 0o600)?;
        Ok(Digest::of(bytes))
    }

    /// Keeps a document in its canonical form.
    pub(super) fn keep_document(&self, name: &str, document: &impl Serialize) -> Result<Digest, PromotionError> {
        let text = canonical(document).map_err(|e| PromotionError::Document { id: name.to_owned(), cause: e.to_string() })?;
        self.keep(name, text.as_bytes())
    }

    /// True if a file is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// The files of evidence that are there, by name.
    pub(super) fn files(&self) -> Result<Vec<(String, Digest)>, PromotionError> {
        let failed = |path: &Path, source| PromotionError::File { act: "read", path: path.to_owned(), source };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|e| failed(&self.path, e))?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name != "lock" && name != super::RECEIPT && !name.contains(".draft-") {
                files.push((name, Digest::of(&fs::read(entry.path()).map_err(|e| failed(&entry.path(), e))?)));
            }
        }
        files.sort();
        Ok(files)
    }
}

fn make(path: &Path) -> Result<(), PromotionError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| PromotionError::File { act: "make", path: path.to_owned(), source })
}
