//! Package indexes: what a sandbox may install, and nothing else exists for it.
//!
//! The clients inside are pointed at an [`Index`] on loopback ([`client_settings`]). It asks the operator's own index ([`Upstreams`]), leaves out
//! of each answer what the grant's rules and the lock files ([`Pins`]) do not allow, and hands a file inside only once its bytes have the hash
//! that was promised, its archive unpacks into its own folder, and the decision is on record ([`PackageWitness`]).

mod answer;
mod archive;
mod cache;
mod client;
mod digest;
mod file;
mod index;
mod limits;
mod locks;
mod node;
mod pins;
mod python;
mod rules;
mod rust;
mod secret;
mod settings;
mod telling;
mod upstreams;
mod witness;

pub use digest::{Algorithm, FileHash};
pub use index::{Index, IndexError, IndexSetup};
pub use limits::IndexLimits;
pub use locks::{LockError, parse_lock};
pub use pins::Pins;
pub use rules::{Refusal, Rule};
pub use secret::Secret;
pub use settings::{ClientSettings, client_settings};
pub use upstreams::{Operator, Upstream, UpstreamError, Upstreams};
pub use witness::{PackageDecision, PackageEvent, PackageWitness};
