//! Who uses a named state: one run at a time, so that none is written over by another that did not see it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::States;
use crate::error::{At, StoreError};
use crate::registry::read;

/// Times that a lock is taken anew which somebody removed meanwhile.
const TRIES: usize = 16;

/// The right to use a named state. It is let go of when it is dropped, and by the kernel when its process ends.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
    path: PathBuf,
}

impl States {
    /// Takes the lock of a name for `by`, which is a run or whoever else is to be told of.
    ///
    /// # Errors
    /// [`StoreError::StateInUse`] if somebody else has it: nobody waits.
    pub fn lock(&self, tenant: Option<&str>, name: &str, by: &str) -> Result<StateLock, StoreError> {
        let folder = self.folder.join("locks");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).at("make", &folder)?;
        let path = folder.join(self.key(tenant, name)?);
        for _ in 0..TRIES {
            let Some(mut file) = take(&path, name)? else { continue };
            file.set_len(0).and_then(|()| file.write_all(by.as_bytes())).at("write", &path)?;
            return Ok(StateLock { _file: file, path });
        }
        Err(in_use(&path, name))
    }

    /// The lock of a name that nobody uses.
    pub(super) fn lock_unless_used(&self, key: &str) -> Result<Option<File>, StoreError> {
        let folder = self.folder.join("locks");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).at("make", &folder)?;
        match take(&folder.join(key), key) {
            Err(StoreError::StateInUse { .. }) => Ok(None),
            taken => taken,
        }
    }

    /// Removes the lock of a name that is not used, when no state has that name any more.
    pub(super) fn remove_lock(&self, key: &str) -> Result<(), StoreError> {
        let Some(_held) = self.lock_unless_used(key)? else { return Ok(()) };
        let path = self.folder.join("locks").join(key);
        match super::names_in(&self.folder.join("named").join(key))?.is_empty() {
            // Whoever opened it before this finds that it has gone, and makes another.
            true => crate::home::unless_gone(fs::remove_file(&path)).at("remove", &path),
            false => Ok(()),
        }
    }
}

impl StateLock {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens and locks; none if the file has been removed since it was opened.
fn take(path: &Path, name: &str) -> Result<Option<File>, StoreError> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).at("open", path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(in_use(path, name)),
        Err(errno) => return Err(io::Error::from(errno)).at("lock", path),
    }
    let held = file.metadata().at("look at", path)?;
    Ok(fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())).then_some(file))
}

fn in_use(path: &Path, name: &str) -> StoreError {
    let by = read(path).ok().flatten().filter(|by| !by.is_empty() && by.len() <= 64);
    StoreError::StateInUse { name: name.to_owned(), by: by.map_or_else(|| "another process".into(), |by| by.escape_debug().to_string()) }
}
