//! What a run sees of the host's files, and what of its changes comes back: scanning folders for what must be hidden, copying inputs, and
//! writing `changes.patch`.

pub(crate) mod beneath;
mod export;
mod git_config;
mod patch;
mod scan;
mod snapshot;

pub(crate) use beneath::list;
pub use export::{ArtifactSink, Export, ExportLimits, ExportRefusal, Exported, Stored, collect};
pub use patch::{PatchRequest, PatchSummary, write_patch};
pub use scan::{HiddenPath, Scan, ScanError, scan};
pub use snapshot::{Copied, SnapshotError, copy_file, copy_tree};

/// Is told how far long work is, in the work's own unit, and ends it by an error.
pub type GoOn<'a> = dyn FnMut(u64) -> std::io::Result<()> + 'a;
