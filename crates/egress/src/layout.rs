//! Which sockets are to be made inside for a set of rules, and what programs find there. Pure: it decides, others make.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ringfence_policy::{Destination, HostName, HostPattern};

use crate::names::{BITS, FIRST, Names};

/// Where the proxy listens inside: CONNECT, absolute-form HTTP and SOCKS 5.
pub const PROXY_PORT: u16 = 3128;
/// Where the package index listens inside.
pub const INDEX_PORT: u16 = 3129;
/// Where names are asked for.
const NAME_PORT: u16 = 53;
/// Sockets for single names; above, one for each port takes all.
const MOST_SOCKETS: usize = 128;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoorRole {
    /// The proxy.
    Proxy,
    /// The package index.
    Index,
    /// Questions for names; the one that takes datagrams.
    Names,
    /// Connections to addresses that stand for names.
    Direct,
}

/// A socket that is to be made inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorSocket {
    /// What it is for.
    pub role: DoorRole,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its port.
    pub port: u16,
}

/// Sockets, addresses and files of one run.
#[derive(Debug)]
pub struct Layout {
    /// The sockets, in the order in which the broker is to be given them.
    pub sockets: Vec<DoorSocket>,
    /// Addresses of the loopback interface, with the bits of their ranges.
    pub addresses: Vec<(Ipv4Addr, u8)>,
    /// Files by absolute path inside.
    pub files: Vec<(String, String)>,
    /// Variables.
    pub environment: Vec<(String, String)>,
    pub(crate) names: Names,
}

impl Layout {
    /// The layout for some destinations, with or without a package index.
    pub fn of(destinations: &[Destination], has_index: bool) -> Self {
        let names = Names::default();
        let single: Vec<(&HostName, u16)> = destinations.iter().filter_map(single).collect();
        let direct = direct(destinations, &single, &names);
        let is_needed = !destinations.is_empty();
        let socket = |role, port| DoorSocket { role, address: Ipv4Addr::LOCALHOST, port };
        let proxy = is_needed.then(|| [socket(DoorRole::Proxy, PROXY_PORT), socket(DoorRole::Names, NAME_PORT)]);
        let index = has_index.then(|| socket(DoorRole::Index, INDEX_PORT));
        let literals = single.iter().filter_map(|(host, _)| match host.address()? {
            IpAddr::V4(address) if !address.is_loopback() => Some((address, 32)),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        });
        let mut addresses: Vec<(Ipv4Addr, u8)> = is_needed.then_some((FIRST, BITS)).into_iter().chain(literals).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            addresses,
            sockets: proxy.into_iter().flatten().chain(index).chain(direct).collect(),
            files: if is_needed { files(&single, &names) } else { Vec::new() },
            environment: if is_needed { environment() } else { Vec::new() },
            names,
        }
    }
}

fn single(rule: &Destination) -> Option<(&HostName, u16)> {
    match &rule.host {
        HostPattern::Exactly(host) => Some((host, rule.port)),
        HostPattern::Below(_) => None,
    }
}

/// A socket for each name and port. A port that a wildcard has, or too many names, has one socket over all addresses: then no program inside can
/// listen there itself.
fn direct(destinations: &[Destination], single: &[(&HostName, u16)], names: &Names) -> Vec<DoorSocket> {
    let mut by_port: BTreeMap<u16, Vec<Ipv4Addr>> = BTreeMap::new();
    for (host, port) in single {
        if let Some(address) = names.address_of(host) {
            by_port.entry(*port).or_default().push(address);
        }
    }
    let is_many = by_port.values().map(Vec::len).sum::<usize>() > MOST_SOCKETS;
    let wild = destinations.iter().filter(|rule| !rule.is_one_host()).map(|rule| rule.port);
    for port in wild.chain(if is_many { by_port.keys().copied().collect() } else { Vec::new() }).collect::<Vec<_>>() {
        by_port.insert(port, vec![Ipv4Addr::UNSPECIFIED]);
    }
    let sockets = by_port.into_iter().flat_map(|(port, mut addresses)| {
        addresses.sort_unstable();
        addresses.dedup();
        addresses.into_iter().map(move |address| DoorSocket { role: DoorRole::Direct, address, port })
    });
    sockets.filter(|socket| !collides(socket)).take(MOST_SOCKETS).collect()
}

/// The broker's own ports are its own; the proxy still leads there.
fn collides(socket: &DoorSocket) -> bool {
    let is_ours = [PROXY_PORT, INDEX_PORT, NAME_PORT].contains(&socket.port);
    is_ours && (socket.address.is_unspecified() || socket.address == Ipv4Addr::LOCALHOST)
}

fn files(single: &[(&HostName, u16)], names: &Names) -> Vec<(String, String)> {
    let mut hosts = String::from("127.0.0.1 localhost sandbox\n::1 localhost\n");
    let mut named: Vec<&HostName> = single.iter().map(|(host, _)| *host).filter(|host| host.address().is_none()).collect();
    named.dedup();
    for host in named {
        if let Some(address) = names.address_of(host) {
            hosts.push_str(&format!("{address} {host}\n"));
        }
    }
    let resolver = "# names are answered by ringfence, as far as a rule names them\nnameserver 127.0.0.1\noptions timeout:2 attempts:1\n";
    vec![("/etc/hosts".into(), hosts), ("/etc/resolv.conf".into(), resolver.into())]
}

/// What clients look for. `ALL_PROXY` says http, which every client has; SOCKS 5 is spoken at the same place.
fn environment() -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let upper = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name.to_owned(), proxy.clone()));
    let lower = ["http_proxy", "https_proxy", "all_proxy"].map(|name| (name.to_owned(), proxy.clone()));
    let local = "localhost,127.0.0.1,::1";
    let none = ["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), local.to_owned()));
    // Node's own fetch looks at the variables only if it is told to.
    let node = [("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned())];
    upper.into_iter().chain(lower).chain(none).chain(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(listed: &[&str]) -> Layout {
        Layout::of(&listed.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>(), false)
    }

    fn direct_of(layout: &Layout) -> Vec<String> {
        let direct = layout.sockets.iter().filter(|socket| socket.role == DoorRole::Direct);
        direct.map(|socket| format!("{}:{}", socket.address, socket.port)).collect()
    }

    #[test]
    fn names_have_addresses_of_their_own_and_wildcards_a_port() {
        let layout = layout(&["a.example.com:443", "b.example.com:443", "a.example.com:80", "https://*.example.org:8443", "10.1.2.3:5432"]);
        assert_eq!(direct_of(&layout), ["198.18.0.2:80", "198.18.0.2:443", "198.18.0.3:443", "10.1.2.3:5432", "0.0.0.0:8443"]);
        assert_eq!(layout.addresses, [("10.1.2.3".parse().unwrap(), 32), ("198.18.0.1".parse().unwrap(), 15)]);
        assert!(layout.files[0].1.contains("198.18.0.2 a.example.com\n198.18.0.3 b.example.com\n"), "{:?}", layout.files);
    }

    #[test]
    fn without_destinations_there_is_nothing_but_the_index() {
        let layout = Layout::of(&[], true);
        assert_eq!(layout.sockets, [DoorSocket { role: DoorRole::Index, address: Ipv4Addr::LOCALHOST, port: INDEX_PORT }]);
        assert!(layout.files.is_empty() && layout.environment.is_empty() && layout.addresses.is_empty());
    }

    #[test]
    fn many_names_share_sockets() {
        let many: Vec<String> = (0..1000).map(|number| format!("host-{number}.example.com:443")).collect();
        let layout = layout(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(direct_of(&layout), ["0.0.0.0:443"]);
    }
}
