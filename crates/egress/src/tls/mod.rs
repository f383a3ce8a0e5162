//! TLS: what the first bytes say, and, where requests must be read, both ends of it under a certificate authority of the run's own.

mod authority;
mod hello;
mod prefixed;
mod upstream;

pub use authority::Interception;
pub(crate) use hello::{Hello, UNRECOGNIZED_NAME, hello};
pub(crate) use prefixed::Prefixed;
pub(crate) use upstream::Upstream;
