//! Artifacts by the digest of their content: written to a draft, flushed, renamed. The same content is kept once, and never written over.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_evidence::Digest;
use sha2::{Digest as _, Sha256};

use crate::error::{At, StoreError};
use crate::home::{Home, is_gone, unless_gone};

/// The artifacts of a home.
#[derive(Debug, Clone)]
pub struct Artifacts {
    folder: PathBuf,
}

impl Artifacts {
    /// Those of `home`.
    pub fn of(home: &Home) -> Self {
        Self { folder: home.root().join("artifacts") }
    }

    /// Takes content to its end, hashing while it copies.
    pub fn put(&self, content: &mut dyn Read) -> io::Result<(Digest, u64)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let draft = self.folder.join(format!("draft-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let put = self.put_by_way_of(&draft, content);
        if put.is_err() {
            // What could not be kept whole is not kept; the error is what matters.
            fs::remove_file(&draft).unwrap_or_default();
        }
        put
    }

    fn put_by_way_of(&self, draft: &Path, content: &mut dyn Read) -> io::Result<(Digest, u64)> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
        let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 128 << 10]);
        loop {
            let read = content.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            file.write_all(&buffer[..read])?;
            hasher.update(&buffer[..read]);
            bytes += read as u64;
        }
        let digest = Digest::from_bytes(hasher.finalize().into());
        let kept = self.path(&digest);
        if kept.exists() {
            fs::remove_file(draft)?;
            return Ok((digest, bytes));
        }
        file.sync_all()?;
        if let Some(folder) = kept.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            fs::rename(draft, &kept)?;
            File::open(folder)?.sync_all()?;
        }
        Ok((digest, bytes))
    }

    /// Where an artifact is, whether or not it is there.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.folder.join(&hex[..2]).join(&hex[2..])
    }

    /// Opens an artifact for reading.
    pub fn open(&self, digest: &Digest) -> Result<File, StoreError> {
        let path = self.path(digest);
        match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(StoreError::NoArtifact(digest.to_string())),
            opened => opened.at("open", &path),
        }
    }

    /// Removes drafts that processes which are gone have left.
    pub fn sweep(&self) -> Result<(), StoreError> {
        for entry in fs::read_dir(&self.folder).at("read", &self.folder)?.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|n| n.strip_prefix("draft-")?.split('-').next()?.parse::<i32>().ok());
            if pid.is_some_and(is_gone) {
                unless_gone(fs::remove_file(entry.path())).at("remove", &entry.path())?;
            }
        }
        Ok(())
    }
}
