//! The folder of one promotion: its evidence, and the turn of whoever moves it on, which the kernel lets go of however its process ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ringfence_evidence::{Digest, canonical};
use ringfence_store::{Home, write_whole};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::error::PromotionError;

/// How soon somebody who waits for a turn looks again.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A private folder that goes when it is dropped.
#[derive(Debug)]
pub(super) struct PassingWork(PathBuf);

impl PassingWork {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PassingWork {
    fn drop(&mut self) {
        // What cannot be removed now is removed by a sweep.
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

/// The folder, for as long as this process has the turn.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    work: PathBuf,
    _turn: File,
}

impl Folder {
    /// Takes the turn, waiting for whoever has it, which may be as long as checks run; until somebody asks to stop.
    pub(super) fn take_turn(home: &Home, promotion: &str, cancel: Option<BorrowedFd<'_>>) -> Result<Self, PromotionError> {
        let Some(cancel) = cancel else { return Self::lock(home, promotion, FlockOperation::LockExclusive) };
        loop {
            if let Some(turn) = Self::try_turn(home, promotion)? {
                return Ok(turn);
            }
            let mut asked = [PollFd::from_borrowed_fd(cancel, PollFlags::IN)];
            match poll(&mut asked, Some(&AGAIN)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Err(PromotionError::Interrupted),
                Err(errno) => {
                    return Err(PromotionError::File { act: "wait for", path: home.promotions().join(promotion), source: errno.into() });
                }
            }
        }
    }

    /// Takes the turn if nobody has it.
    pub(super) fn try_turn(home: &Home, promotion: &str) -> Result<Option<Self>, PromotionError> {
        match Self::lock(home, promotion, FlockOperation::NonBlockingLockExclusive) {
            Err(PromotionError::File { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// A private folder for looking at a target, of no promotion.
    pub(super) fn passing_work(home: &Home, name: &str) -> Result<PassingWork, PromotionError> {
        let path = home.work().join(format!("{PASSING}{}-{name}", std::process::id()));
        make(&path)?;
        Ok(PassingWork(path))
    }

    fn lock(home: &Home, promotion: &str, operation: FlockOperation) -> Result<Self, PromotionError> {
        let path = home.promotions().join(promotion);
        let work = work(home, promotion);
        make(&path)?;
        let place = path.join(super::LOCK);
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

    /// Takes away what was needed meanwhile. A git whose ringfence was killed may for a moment still write there.
    pub(super) fn clear(&self) -> Result<(), PromotionError> {
        const TIMES: usize = 50;
        for time in 1.. {
            match fs::remove_dir_all(&self.work) {
                Err(source) if source.kind() == io::ErrorKind::DirectoryNotEmpty && time < TIMES => {
                    thread::sleep(Duration::from_millis(20))
                }
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(PromotionError::File { act: "remove", path: self.work.clone(), source });
                }
                Ok(()) | Err(_) => break,
            }
        }
        Ok(())
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

    /// Takes away what processes that are gone were about to write: whoever has the turn writes alone.
    pub(super) fn clear_drafts(&self) -> Result<(), PromotionError> {
        let failed = |source| PromotionError::File { act: "clear", path: self.path.clone(), source };
        for entry in fs::read_dir(&self.path).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().contains(".draft-") {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The files of evidence that are there, by name.
    pub(super) fn files(&self) -> Result<Vec<(String, Digest)>, PromotionError> {
        let failed = |path: &Path, source| PromotionError::File { act: "read", path: path.to_owned(), source };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|e| failed(&self.path, e))?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name != super::LOCK && name != super::RECEIPT {
                files.push((name, Digest::of(&fs::read(entry.path()).map_err(|e| failed(&entry.path(), e))?)));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Takes away what processes that are gone needed meanwhile.
pub(crate) fn sweep(home: &Home) -> Result<(), PromotionError> {
    let place = home.work();
    let failed = |source| PromotionError::File { act: "read", path: place.clone(), source };
    for entry in fs::read_dir(&place).map_err(failed)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_gone = |rest: &str| rest.split('-').next().is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if name.strip_prefix(PASSING).is_some_and(is_gone) {
            // Another process may sweep at the same time.
            fs::remove_dir_all(entry.path()).unwrap_or_default();
        }
        // The turn is held while it is cleared: nobody begins to need it meanwhile.
        let promotion = name.strip_prefix(OWN).filter(|promotion| home.promotions().join(promotion).exists());
        if let Some(turn) = promotion.map(|promotion| Folder::try_turn(home, promotion)).transpose()?.flatten() {
            turn.clear()?;
        }
    }
    Ok(())
}

/// How the folder begins that a promotion needs meanwhile.
const OWN: &str = "promotion-";
/// The same for looking at a target; the process follows.
const PASSING: &str = "looking-";

fn work(home: &Home, promotion: &str) -> PathBuf {
    home.work().join(format!("{OWN}{promotion}"))
}

fn make(path: &Path) -> Result<(), PromotionError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| PromotionError::File { act: "make", path: path.to_owned(), source })
}
