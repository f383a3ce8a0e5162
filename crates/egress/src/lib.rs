//! The one way to a network. It decides on names, ports and requests, resolves and dials outside, and tells of each decision.
//!
//! It refuses to know what a sandbox is: it is handed listening sockets, rules, and somebody to tell. In the order in which a reader meets them: a
//! [`Layout`] says which sockets are to be made inside and what programs find there, [`Terms`] are what was granted, and a [`Broker`] serves the
//! sockets by them until it is closed. Nothing is dialled for a sandbox that was not decided, checked and told before. What the operator fetches from a
//! [`registry`] is asked for by the operator, and no sandbox takes part.
#![forbid(unsafe_code)]

mod broker;
mod budget;
mod credential;
mod dial;
mod dns;
mod exchange;
mod layout;
mod names;
mod proxy;
mod relay;
mod reply_head;
mod request;
mod resolver;
mod rules;
mod shared;
mod socks;
mod tls;
mod tunnel;
mod witness;

pub use broker::Broker;
pub use credential::{Credential, CredentialValue, ValueError};
pub use layout::{DoorRole, DoorSocket, INDEX_PORT, Layout, PROXY_PORT};
pub use reply_head::{ReplyBounded, ReplyHead};
pub use resolver::{Resolver, Resolving, SystemResolver};
pub use rules::Rules;
pub use shared::{Terms, Totals};
pub use tls::Interception;
pub use witness::{Closed, EgressEvent, Opened, Refused, RequestLine, Seen, Unrecorded, Way, Witness};
pub mod packages;
pub mod registry;
