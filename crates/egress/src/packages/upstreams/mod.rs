//! Where packages are from: the index that the operator's own clients use. There is no default: an index that nobody named is not asked.
//!
//! The settings of pip, npm and cargo are read as those programs read them, but only the person's and the machine's, never a project's: a
//! project is what a run may have written.

mod cargo;
mod ini;
mod npm;
mod pip;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use ringfence_policy::Ecosystem;

use super::secret::Secret;

/// Larger settings are not read.
const MOST_BYTES: u64 = 1 << 20;

/// Why there is no index to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The operator's client has no setting.
    #[error("{client} names no index of {ecosystem} packages")]
    Unnamed {
        /// Whose packages.
        ecosystem: Ecosystem,
        /// The client whose settings were read.
        client: &'static str,
        /// What would name one.
        hint: &'static str,
    },
    /// It names something that cannot be asked.
    #[error("the index that {client} names cannot be used: {why}")]
    Unusable {
        /// The client whose settings were read.
        client: &'static str,
        /// What is wrong with it, without credentials.
        why: String,
        /// What would name one.
        hint: &'static str,
    },
    /// A settings file cannot be read.
    #[error("settings of {client} in `{}` cannot be read: {why}", path.display())]
    Settings {
        /// The client whose settings were read.
        client: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl UpstreamError {
    /// What to do about it.
    pub fn hint(&self) -> &str {
        match self {
            Self::Unnamed { hint, .. } | Self::Unusable { hint, .. } => hint,
            Self::Settings { .. } => "correct the file",
        }
    }
}

/// An index of packages.
#[derive(Clone)]
pub struct Upstream {
    /// Its address without credentials, ending in `/`.
    pub(crate) url: Url,
    /// The value of the `Authorization` header, for this address alone.
    pub(crate) authorization: Option<Secret<String>>,
    /// Certificates that the operator's client trusts.
    pub(crate) certificates: Option<PathBuf>,
}

impl Upstream {
    /// Reads an address; credentials in it become the header.
    pub fn parse(client: &'static str, text: &str, hint: &'static str) -> Result<Self, UpstreamError> {
        let unusable = |why: &str| UpstreamError::Unusable { client, why: why.to_owned(), hint };
        let mut url: Url = text.parse().map_err(|_| unusable("it is no URL"))?;
        if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none() {
            return Err(unusable("it is no https URL"));
        }
        let authorization = basic(&url);
        let is_bare = url.set_username("").and_then(|()| url.set_password(None)).is_ok();
        url.set_query(None);
        url.set_fragment(None);
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        match is_bare {
            true => Ok(Self { url, authorization, certificates: None }),
            false => Err(unusable("its credentials cannot be told apart")),
        }
    }

    /// The header for a request, if it goes to the same place as the index itself.
    pub(crate) fn authorization_for(&self, url: &Url) -> Option<&Secret<String>> {
        self.authorization.as_ref().filter(|_| url.origin() == self.url.origin())
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("url", &self.url.as_str()).field("authorization", &self.authorization).finish_non_exhaustive()
    }
}

/// Credentials of an address, as the header that says the same.
fn basic(url: &Url) -> Option<Secret<String>> {
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let has_any = !url.username().is_empty() || url.password().is_some();
    let pair = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default()));
    has_any.then(|| Secret::new(format!("Basic {}", STANDARD.encode(pair))))
}

/// The index of each ecosystem.
#[derive(Debug, Clone)]
pub struct Upstreams {
    python: Result<Upstream, UpstreamError>,
    node: Result<Upstream, UpstreamError>,
    rust: Result<Upstream, UpstreamError>,
    /// Settings that were seen and are not heeded.
    pub warnings: Vec<String>,
}

impl Upstreams {
    /// Reads the operator's settings.
    pub fn read(operator: &Operator<'_>) -> Self {
        let mut warnings = Vec::new();
        Self { python: pip::read(operator, &mut warnings), node: npm::read(operator, &mut warnings), rust: cargo::read(operator), warnings }
    }

    /// The index of one ecosystem.
    pub fn of(&self, ecosystem: Ecosystem) -> Result<&Upstream, &UpstreamError> {
        match ecosystem {
            Ecosystem::Python => self.python.as_ref(),
            Ecosystem::Node => self.node.as_ref(),
            Ecosystem::Rust => self.rust.as_ref(),
        }
    }
}

/// Whose settings are read: an environment, and a file system from its root.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    /// The operator's environment.
    pub environment: &'a BTreeMap<String, String>,
    /// Where `/` is.
    pub root: &'a Path,
}

impl Operator<'_> {
    /// A variable that is set to something.
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A folder of the person's: the variable, or a part of the home folder.
    fn folder(&self, variable: &str, below_home: &str) -> Option<String> {
        let of_home = || self.variable("HOME").map(|home| format!("{}/{below_home}", home.trim_end_matches('/')));
        self.variable(variable).map(str::to_owned).or_else(of_home)
    }

    /// The text of a settings file; none if there is none.
    fn text(&self, client: &'static str, path: &str) -> Result<Option<String>, UpstreamError> {
        let path = self.root.join(path.trim_start_matches('/'));
        let fail = |why: String| UpstreamError::Settings { client, path: path.clone(), why };
        let metadata = match path.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(fail(error.to_string())),
        };
        if metadata.len() > MOST_BYTES {
            return Err(fail("it is larger than 1 MiB".to_owned()));
        }
        std::fs::read_to_string(&path).map(Some).map_err(|error| fail(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
