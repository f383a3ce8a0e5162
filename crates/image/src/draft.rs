//! Where something is made before it is put in its place: a folder `draft-PID-…` beside the images, swept once its process is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{At, ImageError};

/// A folder that goes with this value.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
}

impl Draft {
    pub(crate) fn new(beside: &Path) -> Result<Self, ImageError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("draft-{}-{moment}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = beside.join(name);
        fs::create_dir(&path).at("make", &path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder in it.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, ImageError> {
        let path = self.path.join(name);
        fs::create_dir(&path).at("make", &path)?;
        Ok(path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // What stays behind is swept by the next start: the error of whoever had it is what matters.
        fs::remove_dir_all(&self.path).unwrap_or_default();
    }
}
