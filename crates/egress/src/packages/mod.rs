//! Package indexes: what a sandbox may install, and nothing else exists for it.

mod digest;
mod locks;
mod pins;
mod secret;
mod upstreams;

pub use digest::{Algorithm, FileHash};
pub use locks::{LockError, parse_lock};
pub use pins::Pins;
pub use secret::Secret;
pub use upstreams::{Operator, Upstream, UpstreamError, Upstreams};
