//! The operator's own credential for a registry, from the configuration file of the usual client. Programs that such a file names are not run.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// A name and a password as they go into a header: `Debug` prints stars, and reading it is a call that says so.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    auths: BTreeMap<String, Account>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
}

impl Credential {
    /// Finds the credential for a host in a configuration file; `None` if there is none, or the file does not read.
    pub fn find(configuration: &str, host: &str) -> Option<Self> {
        let configuration: Configuration = serde_json::from_str(configuration).ok()?;
        let is_hosts = |place: &str| place.trim_start_matches("https://").trim_start_matches("http://").split('/').next() == Some(host);
        let account = configuration.auths.iter().find(|(place, _)| is_hosts(place)).map(|(_, account)| account)?;
        match account {
            Account { auth: Some(auth), .. } if !auth.is_empty() => Self::of_pair(&String::from_utf8(STANDARD.decode(auth).ok()?).ok()?),
            Account { username: Some(name), password: Some(password), .. } => Self::of_pair(&format!("{name}:{password}")),
            Account { .. } => None,
        }
    }

    fn of_pair(pair: &str) -> Option<Self> {
        pair.contains(':').then(|| Self(format!("Basic {}", STANDARD.encode(pair))))
    }

    /// The value of the header `Authorization`.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// A token that somebody gave out.
    pub(super) fn of_token(token: &str) -> Self {
        Self(format!("Bearer {token}"))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_found_by_its_host_alone() {
        let file = r#"{"auths":{"registry.example.com:5000":{"auth":"bWU6c2VjcmV0"},"https://other.example.com/v1/":{"username":"a","password":"b"}},"credsStore":"x"}"#;
        assert_eq!(Credential::find(file, "registry.example.com:5000").unwrap().expose(), "Basic bWU6c2VjcmV0");
        assert_eq!(Credential::find(file, "other.example.com").unwrap().expose(), "Basic YTpi");
        for host in ["registry.example.com", "example.com", "other.example.com.evil.example", ""] {
            assert_eq!(Credential::find(file, host), None);
        }
        assert_eq!(Credential::find("no json", "a"), None);
        assert_eq!(format!("{:?}", Credential::of_pair("me:secret").unwrap()), "***");
    }
}
