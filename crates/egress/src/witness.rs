//! What is told of each decision, and to whom. What cannot be told does not happen.

use std::fmt;
use std::net::SocketAddr;

/// By which way somebody inside came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The proxy, asked for a tunnel.
    Connect,
    /// The proxy, asked for one request.
    Http,
    /// The proxy, by SOCKS 5.
    Socks,
    /// A connection to an address that stands for a name.
    Direct,
    /// A question for a name.
    Name,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Http => "http",
            Self::Socks => "socks",
            Self::Direct => "direct",
            Self::Name => "name",
        })
    }
}

/// How much of what crosses is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing: the bytes are opaque.
    Nothing,
    /// The name that TLS is for; what is inside it is not seen, and no rule about it can be held.
    Name,
    /// Every request and reply.
    Requests,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Name => "name",
            Self::Requests => "requests",
        })
    }
}

/// The first line of a request that somebody read. The query is not part of it: it is content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// Its method.
    pub method: String,
    /// Its path, cut at 256 characters.
    pub path: String,
}

/// Something is about to be dialled, or asked over a connection that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Names this exchange; its end has the same number.
    pub exchange: u64,
    /// By which way.
    pub way: Way,
    /// The rule that allows it.
    pub rule: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address, resolved once and checked.
    pub address: SocketAddr,
    /// How much of it is looked at.
    pub seen: Seen,
    /// What was asked, where somebody reads it.
    pub request: Option<RequestLine>,
    /// The credential that was put in.
    pub credential: Option<String>,
}

/// An exchange is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Which.
    pub exchange: u64,
    /// Bytes towards the host; where requests are read, their heads and bodies.
    pub up_bytes: u64,
    /// Bytes from the host; where requests are read, heads and bodies of replies.
    pub down_bytes: u64,
    /// How long it took, milliseconds.
    pub ms: u64,
    /// The address that was reached, if it is not the one that was told of: further addresses of the name are tried in turn, and all were checked.
    pub address: Option<SocketAddr>,
    /// The status of the reply, where somebody reads it.
    pub status: Option<u16>,
    /// Why it ended, if not by itself, as legible as a reason.
    pub cause: Option<String>,
}

/// Something was refused; nothing was dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// By which way.
    pub way: Way,
    /// The host as asked, control bytes escaped, cut at 256 characters.
    pub host: String,
    /// The port, if one was asked.
    pub port: Option<u16>,
    /// The rule that refused it, control bytes escaped, cut at 512 characters.
    pub reason: String,
    /// What was asked, if somebody read it.
    pub request: Option<RequestLine>,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressEvent {
    /// Before it is done.
    Opened(Opened),
    /// Afterwards.
    Closed(Closed),
    /// Instead.
    Refused(Refused),
}

/// What happened could not be written down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the decision could not be recorded: {0}")]
pub struct Unrecorded(pub String);

/// Somebody who writes down what is told. Called from many threads; it may wait for a short write, not for a disk.
pub trait Witness: Send + Sync + fmt::Debug {
    /// Writes one event down. On an error nothing is dialled.
    fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded>;
}

/// A text of a stranger's as it may stand in a record.
pub(crate) fn printable(text: &str) -> String {
    let escaped: String = text.chars().take(256).flat_map(char::escape_debug).collect();
    escaped.chars().take(256).collect()
}

/// A reason as it may stand in a record: our words, around those of strangers.
pub(crate) fn legible(text: &str) -> String {
    let escaped = |c: char| if "\\'\"".contains(c) { c.to_string() } else { c.escape_debug().to_string() };
    text.chars().map(escaped).flat_map(|part| part.chars().collect::<Vec<_>>()).take(512).collect()
}
