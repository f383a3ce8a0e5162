//! Resolves once, checks every address, and dials one that was checked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ringfence_policy::{AddressRange, HostName, Set, refused_range};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::resolver::Resolver;

/// How long a name may take.
const RESOLVE: Duration = Duration::from_secs(10);
/// How long one address may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Addresses of one name that are tried.
const TRIED: usize = 4;

/// Why nothing was dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoDial {
    /// A rule is against it.
    Refused(String),
    /// It was tried.
    Failed(String),
}

/// The addresses of a host that may be dialled. One that a rule names as it is needs no other permission; a name never leads to a refused range.
pub(crate) async fn addresses(
    host: &HostName,
    port: u16,
    resolver: &dyn Resolver,
    exceptions: &Set<AddressRange>,
) -> Result<Vec<SocketAddr>, NoDial> {
    if let Some(address) = host.address() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found = match timeout(RESOLVE, resolver.resolve(host)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(NoDial::Failed(format!("`{host}` cannot be resolved: {error}"))),
        Err(_) => return Err(NoDial::Failed(format!("`{host}` cannot be resolved: no answer in {} s", RESOLVE.as_secs()))),
    };
    let allowed: Vec<SocketAddr> = found
        .iter()
        .map(IpAddr::to_canonical)
        .filter(|address| refused_range(*address, exceptions).is_none())
        .map(|address| SocketAddr::new(address, port))
        .take(TRIED)
        .collect();
    match (found.first(), allowed.is_empty()) {
        (Some(address), true) => {
            let why = refused_range(*address, exceptions).unwrap_or("refused");
            Err(NoDial::Refused(format!("`{host}` leads to {address}, an address that no name may lead to ({why})")))
        }
        (None, true) => Err(NoDial::Failed(format!("`{host}` has no address"))),
        (_, false) => Ok(allowed),
    }
}

/// Connects to one of the addresses, in their order.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), NoDial> {
    let mut last = NoDial::Failed("there is no address".to_owned());
    for address in addresses {
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).unwrap_or_default(); // slower without, and nothing worse
                return Ok((stream, *address));
            }
            Ok(Err(error)) => last = NoDial::Failed(format!("{address}: {error}")),
            Err(_) => last = NoDial::Failed(format!("{address}: no answer in {} s", CONNECT.as_secs())),
        }
    }
    Err(last)
}
