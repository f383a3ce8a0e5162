//! As which host a client must know this server, so that a page in a browser cannot reach it by a name of its own (DNS rebinding), nor ask from elsewhere.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

use crate::problem::{Code, Problem, shortened};

/// Names of this server, beside addresses and `localhost`.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Vec<String>,
}

impl Hosts {
    pub(crate) fn of(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect() }
    }

    /// Refuses requests for other hosts, and those of pages of other origins.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = self.check_host(uri, headers)?;
        match headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(|origin| is_of(origin, host))) {
            true => Ok(()),
            false => {
                Err(Problem::new(Code::ForeignOrigin, "a page of another origin asks", "ask from a program, or from a page of this server"))
            }
        }
    }

    /// Refuses requests for other hosts; answers with the one that was asked for.
    pub(crate) fn check_host<'h>(&self, uri: &Uri, headers: &'h HeaderMap) -> Result<&'h str, Problem> {
        if uri.authority().is_some() || uri.path() == "*" {
            let hint = "write the path alone in the first line, and the host under `Host`";
            return Err(Problem::new(Code::BadRequest, "the request is not for a path of this server", hint));
        }
        let host = one(headers, &HOST)?;
        if !is_authority(host) || !self.is_ours(name_of(host)) {
            let detail = format!("`{}` is not a name of this server", shortened(host));
            return Err(Problem::new(Code::WrongHost, detail, "ask by address or `localhost`; the operator names others with --host-name"));
        }
        Ok(host)
    }

    fn is_ours(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        let is_named = |name: &str| self.names.iter().any(|own| own == name);
        let is_port = || name.split_once('.').is_some_and(|(label, parent)| is_port_of_sandbox(label) && is_named(parent));
        address.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost") || is_named(&name) || is_port()
    }
}

/// `PORT-ID`, below a name of the server: a port of a sandbox.
fn is_port_of_sandbox(label: &str) -> bool {
    label.split_once('-').is_some_and(|(port, id)| port.parse::<u16>().is_ok() && id.parse::<ringfence_store::RunId>().is_ok())
}

/// The one value of a field that must be there once.
fn one<'h>(headers: &'h HeaderMap, field: &http::HeaderName) -> Result<&'h str, Problem> {
    let mut values = headers.get_all(field).iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(Problem::new(Code::BadRequest, format!("the field `{field}` must be there once"), "send it once")),
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match (host.rfind(':'), host.rfind(']')) {
        (Some(colon), Some(bracket)) if colon < bracket => host,
        (Some(colon), _) => &host[..colon],
        (None, _) => host,
    }
}

fn is_authority(host: &str) -> bool {
    let port = host[name_of(host).len()..].strip_prefix(':');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    !name_of(host).is_empty() && host.bytes().all(is_plain) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// True if a page of this origin is one of the host that was asked for.
fn is_of(origin: &str, host: &str) -> bool {
    let asked = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), Code> {
        let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]);
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        let hosts = Hosts::of(&["ring.example".into()]);
        hosts.check(&"/v1/runs".parse().unwrap(), &headers).map_err(|problem| problem.code())
    }

    #[test]
    fn a_name_of_somebody_elses_is_not_ours() {
        for ours in [
            "127.0.0.1",
            "127.0.0.1:7300",
            "[::1]:7300",
            "[::1]",
            "localhost:1",
            "LOCALHOST",
            "a.localhost",
            "ring.example:443",
            "ring.example.",
            "3000-01kbdz9xk3v8p5r0q2n7m4t6w1.ring.example",
        ] {
            assert_eq!(check(ours, None), Ok(()), "{ours}");
        }
        for other in [
            "evil.example",
            "evil.example:7300",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "xlocalhost",
            "ring.example.evil",
            "www.ring.example",
            "3000-x.ring.example",
            "3000-01kbdz9xk3v8p5r0q2n7m4t6w1.evil.example",
            "",
            ":7300",
            "localhost:x",
            "localhost:99999",
            "user@localhost",
            "localhost/evil",
            "[::1",
            "0x7f.1",
        ] {
            assert_eq!(check(other, None), Err(Code::WrongHost), "{other}");
        }
    }

    #[test]
    fn a_page_of_another_origin_does_not_ask() {
        assert_eq!(check("localhost:7300", Some("http://localhost:7300")), Ok(()));
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost:7301",
            "http://localhost",
            "https://localhost:7300.evil.example",
            "localhost:7300",
            "",
        ] {
            assert_eq!(check("localhost:7300", Some(origin)), Err(Code::ForeignOrigin), "{origin}");
        }
    }
}
