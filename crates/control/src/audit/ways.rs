//! The ways that lead outside where any do: the proxy with its three languages, the name server, the index. What is declared is asked for, and what
//! is not, in every way that there is.

use ringfence_policy::{Capabilities, Destination, Ecosystem, HostName, HostPattern, LimitKey, PackageMode, Set};

use super::bait::Names;

/// Who listens inside.
const PROXY: &str = "127.0.0.1:3128";
const INDEX: &str = "127.0.0.1:3129";
/// Declared places to which a tunnel is asked for, each by one connection.
const MOST_TRIED: usize = 8;
/// Milliseconds that one of them may take; half of the time of a run is for them.
const ONE_TRIED: u64 = 2000;

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// In words.
    pub(crate) what: String,
    host: String,
    port: u16,
}

impl Place {
    fn new(what: impl Into<String>, host: impl Into<String>, port: u16) -> Self {
        Self { what: what.into(), host: host.into(), port }
    }

    /// An IPv6 address stands in brackets.
    fn authority(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }

    pub(crate) fn tunnel(&self) -> String {
        format!("http={PROXY} CONNECT {}", self.authority())
    }

    pub(crate) fn absolute(&self) -> String {
        format!("http={PROXY} GET http://{}/", self.authority())
    }

    pub(crate) fn socks(&self) -> String {
        format!("socks={}:{}", self.host, self.port)
    }

    fn is_declared(&self, listed: &[Destination]) -> bool {
        self.host.parse::<HostName>().is_ok_and(|host| listed.iter().any(|rule| rule.is_at(&host, self.port)))
    }
}

/// Destinations of a grant. That everything is one is refused before anything runs.
pub(crate) fn listed(capabilities: &Capabilities) -> Vec<Destination> {
    match capabilities.reachable() {
        Set::Only(listed) => listed.iter().cloned().collect(),
        Set::All => Vec::new(),
    }
}

/// Declared places of one host each, as many as there is time for.
pub(crate) fn declared(capabilities: &Capabilities) -> Vec<Place> {
    let place = |rule: &Destination| match &rule.host {
        HostPattern::Exactly(host) => Some(Place::new(rule.to_string(), host.as_str(), rule.port)),
        HostPattern::Below(_) => None,
    };
    let wall = capabilities.limits.get(LimitKey::Wall).unwrap_or(u64::MAX);
    let most = usize::try_from(wall / 2 / ONE_TRIED).unwrap_or(MOST_TRIED).clamp(1, MOST_TRIED);
    listed(capabilities).iter().filter_map(place).take(most).collect()
}

/// A name that nobody has.
pub(crate) fn nobody(names: &Names) -> String {
    format!("{}.invalid", names.mark)
}

/// Places that no rule may name.
pub(crate) fn undeclared(names: &Names, capabilities: &Capabilities) -> Vec<Place> {
    let listed = listed(capabilities);
    let (host, port) = names.service.rsplit_once(':').unwrap_or_default();
    let fixed = [
        Place::new("a name that no rule has", nobody(names), 443),
        Place::new("a service on the host's loopback", host, port.parse().unwrap_or_default()),
        Place::new("the metadata service of a cloud", "169.254.169.254", 80),
    ];
    let elsewhere = declared(capabilities).into_iter().take(1).filter_map(|place| {
        let mut other = (1..=u16::MAX).map(|port| Place { what: format!("{} on port {port}", place.host), port, ..place.clone() });
        other.find(|place| !place.is_declared(&listed))
    });
    fixed.into_iter().chain(elsewhere).filter(|place| !place.is_declared(&listed)).collect()
}

/// The first name that a rule has; an address needs no name server.
pub(crate) fn somebody(capabilities: &Capabilities) -> Option<String> {
    let is_name = |place: &Place| place.host.parse::<HostName>().is_ok_and(|host| host.address().is_none());
    declared(capabilities).into_iter().find(is_name).map(|place| place.host)
}

/// A question for a name.
pub(crate) fn name(host: &str) -> String {
    format!("name={host}")
}

/// Whether an index listens at all.
pub(crate) fn index() -> String {
    format!("http={INDEX} GET /")
}

/// A question for a package that nobody has.
pub(crate) fn package(ecosystem: Ecosystem, names: &Names) -> String {
    let mark = &names.mark;
    let path = match ecosystem {
        Ecosystem::Python => format!("/python/simple/ringfence-audit-{mark}/"),
        Ecosystem::Node => format!("/node/ringfence-audit-{mark}"),
        Ecosystem::Rust => format!("/rust/ri/ng/ringfence-audit-{mark}"),
    };
    format!("http={INDEX} GET {path}")
}

/// Questions for packages that nobody has. A language whose packages are chosen freely is not asked for one: its index outside would hear of it.
pub(crate) fn packages(names: &Names, capabilities: &Capabilities) -> Vec<String> {
    let is_bounded = |ecosystem: &Ecosystem| capabilities.packages.mode(*ecosystem) != PackageMode::Open;
    let packages = Ecosystem::ALL.into_iter().filter(is_bounded).map(|ecosystem| package(ecosystem, names));
    std::iter::once(index()).chain(packages).collect()
}

/// All of it.
pub(crate) fn attempts(names: &Names, capabilities: &Capabilities) -> Vec<String> {
    let ways = |place: &Place| [place.tunnel(), place.absolute(), place.socks()];
    let outside = undeclared(names, capabilities);
    let declared = declared(capabilities);
    let asked = declared.iter().map(Place::tunnel).chain(outside.iter().flat_map(ways));
    let asked = asked.chain(somebody(capabilities).map(|host| name(&host)));
    asked.chain([name(&nobody(names))]).chain(packages(names, capabilities)).collect()
}

/// Questions to the index that it answers with a few bytes, all of them different.
pub(crate) fn small(number: u64) -> String {
    format!("http={INDEX} GET /{number}")
}

/// Requests that count against a limit, all of them different: of the proxy where there is one, or else of the index.
pub(crate) fn counted(names: &Names, capabilities: &Capabilities, requests: u64) -> Vec<String> {
    let has_proxy = !listed(capabilities).is_empty();
    let one = |number: u64| match has_proxy {
        true => Place::new("", format!("{number}.{}", nobody(names)), 443).tunnel(),
        false => small(number),
    };
    (1..=requests).map(one).collect()
}
