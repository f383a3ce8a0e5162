//! Fetches the parts of an image from a registry: manifests as bytes, layers as streams. What they mean is decided by whoever asked, and so is whether
//! their digests are right; here it is decided whom to ask, with which credential, for how long and for how much.
//!
//! Plain http is spoken to loopback addresses only, and a redirect never carries a credential. Reference: the distribution specification of the Open
//! Container Initiative, and the token authentication of registries.

mod challenge;
mod client;
mod credential;
mod place;
#[cfg(test)]
mod tests;

pub use client::{Registry, RegistryError};
pub use credential::Credential;
pub use place::{Place, PlaceError};
