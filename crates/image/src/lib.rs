//! Images as data: archives of strangers unpacked safely, kept by digest.
//!
//! [`Images::import`] reads an OCI layout, an archive of one or the tar of a root file system. Everything is looked through and measured before anything is
//! written, and everything is written by descriptors beneath the place where it belongs. What comes of it is plain files, folders and links: no devices,
//! no owners, no attributes, no bits that give rights. [`Images::find`] answers with a root that can be shown read-only, held for as long as it is.
//!
//! This crate knows nothing of sandboxes, records or networks: what is elsewhere comes through an [`Origin`].
#![forbid(unsafe_code)]

mod archive;
mod caps;
mod deb;
mod draft;
mod error;
mod fetch;
mod furnish;
mod import;
mod layer;
mod layout;
mod manifest;
mod measured;
mod names;
mod over;
mod store;
mod tree;
mod unpack;

pub use caps::Caps;
pub use error::ImageError;
pub use fetch::{FetchError, Origin};
pub use import::Tell;
pub use over::Over;
pub use store::{Facts, Held, Images, Listed};
