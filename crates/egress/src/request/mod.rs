//! Requests that are read one by one: to the proxy, or in a tunnel to one place. Each is decided anew, also on a connection that is kept.

mod body;
mod forward;
mod headers;
mod mask;
mod reply;
mod scrub;
mod server;
mod switched;
mod target;

pub(crate) use server::{plain_refusal, serve_fixed, serve_proxy};
