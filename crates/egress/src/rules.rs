//! The decision over a canonical host and port, and over each request where requests are read.

use ringfence_policy::{AddressRange, Destination, HostName, Scheme, Set};

use crate::credential::Credential;

/// What was granted.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The destinations.
    pub destinations: Vec<Destination>,
    /// Refused ranges that a name may lead to after all.
    pub private: Set<AddressRange>,
}

/// How bytes to a place are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Not at all.
    Opaque,
    /// The name in the first bytes of TLS, and nothing inside it; or requests, if plain ones are allowed too.
    Name,
    /// Every request.
    Requests,
}

impl Rules {
    /// The rules about a place.
    pub(crate) fn at<'a, 'b>(&'a self, host: &'b HostName, port: u16) -> impl Iterator<Item = &'a Destination> + use<'a, 'b> {
        self.destinations.iter().filter(move |rule| rule.is_at(host, port))
    }

    /// The rule by which some place may be reached at all.
    pub(crate) fn allows(&self, host: &HostName, port: u16, scheme: Scheme) -> Option<&Destination> {
        self.destinations.iter().find(|rule| rule.scheme == scheme && rule.is_at(host, port))
    }

    /// True if some rule is about a name: then somebody has to answer for it.
    pub(crate) fn is_known(&self, host: &HostName) -> bool {
        self.destinations.iter().any(|rule| rule.host.matches(host))
    }

    /// How bytes to a place are looked at; `None` if no rule is about it.
    pub(crate) fn look(&self, host: &HostName, port: u16, credentials: &[Credential]) -> Option<Look> {
        let has = |scheme| self.allows(host, port, scheme).is_some();
        if has(Scheme::Tcp) {
            Some(Look::Opaque)
        } else if has(Scheme::Https) && !self.is_intercepted(host, port, credentials) {
            Some(Look::Name)
        } else {
            (has(Scheme::Https) || has(Scheme::Http)).then_some(Look::Requests)
        }
    }

    /// True if requests to a place are read although they are inside TLS: a rule is about them, or a credential is put in.
    pub(crate) fn is_intercepted(&self, host: &HostName, port: u16, credentials: &[Credential]) -> bool {
        self.at(host, port).any(|rule| rule.scheme == Scheme::Https && rule.is_about_requests())
            || credentials.iter().any(|credential| credential.binding.to.is_at(host, port))
    }

    /// True if any place needs it.
    pub fn needs_interception(&self, credentials: &[Credential]) -> bool {
        !credentials.is_empty() || self.destinations.iter().any(|rule| rule.scheme == Scheme::Https && rule.is_about_requests())
    }

    /// The rule that allows a request, or why none does.
    pub(crate) fn decide(&self, place: &Place, request: &Asked<'_>) -> Result<&Destination, String> {
        let here: Vec<&Destination> = self.at(&place.host, place.port).filter(|rule| rule.scheme == place.scheme).collect();
        if here.is_empty() {
            return Err(no_rule(place));
        }
        here.into_iter().find(|rule| admits(rule, request)).ok_or_else(|| {
            format!("no rule allows {} {} at {}://{}:{}", request.method, request.path, place.scheme, place.host, place.port)
        })
    }
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) scheme: Scheme,
    pub(crate) host: HostName,
    pub(crate) port: u16,
}

/// What a request asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
}

pub(crate) fn no_rule(place: &Place) -> String {
    format!("no rule allows {}://{}:{}", place.scheme, place.host, place.port)
}

/// True if a rule's methods and paths hold a request.
pub(crate) fn admits(rule: &Destination, request: &Asked<'_>) -> bool {
    let method = match &rule.methods {
        Set::All => true,
        Set::Only(listed) => listed.iter().any(|method| method.as_str() == request.method),
    };
    let path = match &rule.paths {
        Set::All => true,
        Set::Only(listed) => listed.iter().any(|prefix| prefix.covers_request(request.path)),
    };
    method && path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(listed: &[&str]) -> Rules {
        Rules { destinations: listed.iter().map(|text| text.parse().unwrap()).collect(), private: Set::none() }
    }

    fn host(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn how_closely_bytes_are_looked_at_follows_the_rules() {
        let rules = rules(&[
            "tcp://db.example.com:5432",
            "https://*.example.com:443",
            "https://api.example.com:443 methods=GET",
            "http://plain.example.com:80",
        ]);
        assert_eq!(rules.look(&host("db.example.com"), 5432, &[]), Some(Look::Opaque));
        assert_eq!(rules.look(&host("www.example.com"), 443, &[]), Some(Look::Name));
        assert_eq!(rules.look(&host("api.example.com"), 443, &[]), Some(Look::Requests));
        assert_eq!(rules.look(&host("plain.example.com"), 80, &[]), Some(Look::Requests));
        assert_eq!(rules.look(&host("example.com"), 443, &[]), None);
        assert_eq!(rules.look(&host("www.example.com"), 80, &[]), None);
    }

    #[test]
    fn a_request_needs_a_rule_that_holds_all_of_it() {
        let rules = rules(&["http://a.example.com:80 methods=GET paths=/v1", "http://a.example.com:80 methods=POST paths=/v2"]);
        let place = Place { scheme: Scheme::Http, host: host("a.example.com"), port: 80 };
        let decide = |method, path| rules.decide(&place, &Asked { method, path }).is_ok();
        assert!(decide("GET", "/v1/x") && decide("POST", "/v2"));
        assert!(!decide("GET", "/v2") && !decide("POST", "/v1/x") && !decide("GET", "/v1/../v2"));
    }
}
