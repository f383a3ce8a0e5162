//! The list of pins as a file that a run can be given, outside of the home: what is in the home is no input.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use ringfence_store::RunId;

use super::{BuildError, at};
use crate::error::RunError;

/// A list in a folder of its own, which goes with this value.
#[derive(Debug)]
pub(super) struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Writes a list. The folder is new and nobody else's, or there is none.
    pub(super) fn write(text: &str) -> Result<Self, BuildError> {
        let unique = RunId::new().map_err(RunError::Random)?;
        let folder = std::env::temp_dir().join(format!("ringfence-build-{unique}"));
        DirBuilder::new().mode(0o700).create(&folder).map_err(|source| at(&folder, source))?;
        let pins = Self { folder };
        fs::write(pins.path(), text).map_err(|source| at(&pins.path(), source))?;
        Ok(pins)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("requirements.txt")
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        // A list of public names is left at worst.
        fs::remove_dir_all(&self.folder).unwrap_or_default();
    }
}
