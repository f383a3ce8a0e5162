//! Names become addresses outside, once for each connection.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use ringfence_policy::HostName;

/// Addresses on their way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Somebody who knows addresses.
pub trait Resolver: Send + Sync + fmt::Debug {
    /// The addresses of a name, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, host: &'a HostName) -> Resolving<'a>;
}

/// The host's own resolver, its hosts file included.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a HostName) -> Resolving<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address: SocketAddr| address.ip()).collect())
        })
    }
}
