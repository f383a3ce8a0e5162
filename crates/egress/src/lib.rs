//! The one way to a network. It decides on names, ports and requests, resolves and dials outside, and tells of each decision.
//!
//! It refuses to know what a sandbox is: it is handed listening sockets, rules, and somebody to tell.
#![forbid(unsafe_code)]

pub mod registry;
