//! Where a server is: a scheme, a host and a port. A key goes over a connection that nobody else reads, or does not go.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

use super::RemoteError;

/// The address of a server.
///
/// INVARIANT (origin): it has no user, path, query or fragment, and is `https`, or `http` to this host itself. Only `FromStr` builds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(Url);

impl ServerAddress {
    /// The address of something on the server. Each segment is escaped: none of them reaches another path.
    pub(super) fn at(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear().push("v1").extend(segments);
        }
        url
    }

    /// True if it is this host.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl FromStr for ServerAddress {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let bad = |why| RemoteError::Address { text: text.to_owned(), why };
        let url = Url::parse(text).map_err(|_| bad("is no address"))?;
        let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        match url.scheme() {
            _ if !url.username().is_empty() || url.password().is_some() => Err(bad("holds a user: the key comes from RINGFENCE_API_KEY")),
            _ if url.host_str().is_none_or(str::is_empty) || !is_origin => Err(bad("is not the address of a server alone")),
            "https" => Ok(Self(url)),
            "http" if is_loopback(&url) => Ok(Self(url)),
            "http" => Err(bad("would send the key in the clear")),
            _ => Err(bad("is neither https nor http")),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_over_tls_or_stays_on_this_host() {
        for good in
            ["https://fence.example.com", "https://10.0.0.1:7300/", "http://127.0.0.1:7300", "http://localhost:1", "http://[::1]:7300"]
        {
            assert!(good.parse::<ServerAddress>().is_ok(), "{good}");
        }
        for bad in [
            "http://fence.example.com",
            "http://10.0.0.1:7300",
            "http://localhost.example.com",
            "https://me:rf_1@fence.example.com",
            "https://fence.example.com/v1",
            "https://fence.example.com/?a=b",
            "https://fence.example.com/#a",
            "ftp://fence.example.com",
            "file:///etc/passwd",
            "fence.example.com:7300",
            "",
        ] {
            assert!(bad.parse::<ServerAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_does_not_reach_another_path() {
        let server: ServerAddress = "https://fence.example.com".parse().unwrap();
        assert_eq!(server.at(&["runs", "../keys?a#b"]).as_str(), "https://fence.example.com/v1/runs/..%2Fkeys%3Fa%23b");
        assert!(!server.at(&["runs", "..", "keys"]).as_str().contains(".."));
    }
}
