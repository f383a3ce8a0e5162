//! Package indexes: what a sandbox may install, and nothing else exists for it.

mod digest;
mod locks;
mod pins;

pub use digest::{Algorithm, FileHash};
pub use locks::{LockError, parse_lock};
pub use pins::Pins;
