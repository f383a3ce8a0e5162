//! A server that somebody else runs, as this command line asks it: over the API that docs/api.md describes, with the key of a tenant.
//!
//! Nothing here prints, and nothing here decides what may run. What a server answers is a stranger's: it is bounded in size and read into types, and bytes
//! that have a digest are held against it.

mod address;
mod client;
mod error;
mod events;
mod file;

pub(crate) use address::ServerAddress;
pub(crate) use client::Server;
pub(crate) use error::RemoteError;
pub(crate) use events::ServerEvent;
