//! What strangers reach over HTTP: keys and tenants, runs and their evidence, approvals and promotions.
//!
//! A request passes the connection (framed strictly, paced), the gate (host, origin, key) and one route, which does what the command line does, by the same
//! calls, for one tenant. Everything a stranger sends has a limit, in `limits`; everything a stranger is told is JSON, and what is wrong a `Problem`.
#![forbid(unsafe_code)]

mod asked;
mod bounded;
mod connection;
mod e2b;
mod error;
mod gate;
mod idempotency;
mod limits;
mod metrics;
mod moment;
mod openapi;
mod options;
mod problem;
mod reply;
mod routes;
mod server;
mod serving;
mod transfer;
mod work;

pub use error::ServeError;
pub use limits::Limits;
pub use openapi::openapi;
pub use options::{ServeOptions, TlsFiles};
pub use problem::{Code, Problem};
pub use server::Server;
