//! Where a request goes, in canonical form, decided once from all that says so. Where two of them differ it goes nowhere.

use http::header::HOST;
use http::{HeaderMap, Uri};
use ringfence_policy::{HostName, Scheme};

use crate::rules::Place;

/// Reads `HOST[:PORT]`.
pub(crate) fn authority(text: &str, default_port: u16) -> Result<(HostName, u16), String> {
    let bad = |why: &dyn std::fmt::Display| format!("`{}` is not HOST:PORT: {why}", crate::witness::printable(text));
    if text.contains('@') {
        return Err(bad(&"a user has no place there"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    };
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = match port {
        None => default_port,
        Some(port) if is_number(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| bad(&"no such port"))?,
        Some(_) => return Err(bad(&"no such port")),
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(bad(&"an IPv6 address stands in brackets"));
    }
    Ok((host.parse().map_err(|why| bad(&why))?, port))
}

/// The one `Host` of a request, if it has one.
fn host_header(headers: &HeaderMap, default_port: u16) -> Result<Option<(HostName, u16)>, String> {
    let mut hosts = headers.get_all(HOST).iter();
    let Some(host) = hosts.next() else { return Ok(None) };
    if hosts.next().is_some() {
        return Err("the request has two Host headers".to_owned());
    }
    let text = host.to_str().map_err(|_| "the Host header is not text".to_owned())?;
    authority(text, default_port).map(Some)
}

fn agree(place: Place, headers: &HeaderMap, default_port: u16) -> Result<Place, String> {
    match host_header(headers, default_port)? {
        Some((host, port)) if host != place.host || port != place.port => {
            Err(format!("the Host header says {host}:{port}, the request goes to {}:{}", place.host, place.port))
        }
        Some(_) | None => Ok(place),
    }
}

/// Where a tunnel goes that is asked for by CONNECT.
pub(crate) fn of_connect(uri: &Uri, headers: &HeaderMap) -> Result<(HostName, u16), String> {
    let text = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    if uri.port().is_none() {
        return Err(format!("`{}` names no port", crate::witness::printable(text)));
    }
    let (host, port) = authority(text, 0)?;
    let place = Place { scheme: Scheme::Tcp, host, port };
    agree(place, headers, port).map(|place| (place.host, place.port))
}

/// Where a request to a proxy goes: its target is a whole address.
pub(crate) fn of_proxied(uri: &Uri, headers: &HeaderMap) -> Result<Place, String> {
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("https goes through a tunnel: ask by CONNECT".to_owned()),
        Some(_) => return Err("the scheme is not http".to_owned()),
        None => return Err("this is a proxy: ask by CONNECT, or for a whole address such as http://HOST/".to_owned()),
    }
    let (host, port) = authority(uri.authority().map(http::uri::Authority::as_str).unwrap_or_default(), 80)?;
    agree(Place { scheme: Scheme::Http, host, port }, headers, 80)
}

/// Where a request in a tunnel goes: where the tunnel goes, whatever it says.
pub(crate) fn of_tunnelled(place: &Place, uri: &Uri, headers: &HeaderMap) -> Result<Place, String> {
    let default_port = if place.scheme == Scheme::Https { 443 } else { 80 };
    if let Some(named) = uri.authority() {
        let (host, port) = authority(named.as_str(), default_port)?;
        if host != place.host || port != place.port {
            return Err(format!("the request is for {host}:{port}, the tunnel goes to {}:{}", place.host, place.port));
        }
    }
    if headers.get(HOST).is_none() {
        return Err("the request has no Host header".to_owned());
    }
    // A client that does not name the port may mean the one that it is connected to.
    agree(place.clone(), headers, place.port).or_else(|_| agree(place.clone(), headers, default_port))
}

/// `HOST`, with the port unless it is the scheme's own.
pub(crate) fn host_value(place: &Place) -> String {
    let host = if place.host.as_str().contains(':') { format!("[{}]", place.host) } else { place.host.to_string() };
    match (place.scheme, place.port) {
        (Scheme::Http, 80) | (Scheme::Https, 443) => host,
        (_, port) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_of_a_host_is_left_of_many() {
        for (text, wanted) in [
            ("Good.Example.com", Some(("good.example.com", 80))),
            ("good.example.com.:8080", Some(("good.example.com", 8080))),
            ("[::ffff:127.0.0.1]:80", Some(("127.0.0.1", 80))),
            ("[::1]", Some(("::1", 80))),
            ("good.example.com@evil.test", None),
            ("good.example.com:", None),
            ("good.example.com:+80", None),
            ("good.example.com:99999", None),
            ("::1:80", None),
            ("[fe80::1%25eth0]:80", None),
            ("2852039166", None),
            ("0x7f.1", None),
            ("evil.test#good.example.com", None),
            ("", None),
        ] {
            let read = authority(text, 80).ok().map(|(host, port)| (host.to_string(), port));
            assert_eq!(read, wanted.map(|(host, port)| (host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn two_hosts_are_one_too_many() {
        let headers = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().unwrap());
            }
            headers
        };
        let of = |uri: &str, hosts: &[&str]| of_proxied(&uri.parse().unwrap(), &headers(hosts)).is_ok();
        assert!(of("http://a.example.com/", &["a.example.com"]) && of("http://a.example.com/", &[]));
        assert!(of("http://a.example.com:80/", &["A.example.com."]));
        assert!(!of("http://a.example.com/", &["b.example.com"]));
        assert!(!of("http://a.example.com/", &["a.example.com:8080"]));
        assert!(!of("http://a.example.com/", &["a.example.com", "a.example.com"]));
        assert!(!of("/", &["a.example.com"]) && !of("https://a.example.com/", &["a.example.com"]));
    }
}
