//! Connections: accepted up to a number, each read strictly and with time limits, so that nobody holds up anybody else.

mod accept;
mod framing;
mod line;
mod paced;
mod peers;
mod resting;
mod tls;
mod whole;

pub(crate) use accept::{Listening, accept};
pub(crate) use line::Line;
pub(crate) use peers::{Place, network_of};
pub(crate) use tls::acceptor;

/// From where a request comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) std::net::IpAddr);
