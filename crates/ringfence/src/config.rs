//! The one place that reads this process's environment.
#![allow(clippy::disallowed_methods, reason = "this is the place")]

use std::env;
use std::path::PathBuf;

/// What the environment says.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where everything is kept.
    pub(crate) home: PathBuf,
    /// The caller's own home folder.
    pub(crate) user_home: Option<PathBuf>,
    /// Values of variables whose names say that they hold secrets.
    pub(crate) known_secrets: Vec<String>,
}

/// Parts of names by which variables with secrets are known.
const SECRET_WORDS: &[&str] = &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY"];

impl Config {
    /// Reads the environment. The home is `RINGFENCE_HOME`, for root `/var/lib/ringfence`, else the XDG data folder.
    pub(crate) fn read() -> Result<Self, String> {
        let user_home = env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
        let named = env::var_os("RINGFENCE_HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
        let is_root = rustix::process::geteuid().is_root();
        let data = env::var_os("XDG_DATA_HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
        let home = named
            .or_else(|| is_root.then(|| PathBuf::from("/var/lib/ringfence")))
            .or_else(|| data.or_else(|| user_home.as_ref().map(|h| h.join(".local/share"))).map(|d| d.join("ringfence")))
            .ok_or("neither RINGFENCE_HOME nor HOME is set, so there is no place for records")?;
        Ok(Self { home, user_home, known_secrets: known_secrets() })
    }
}

fn known_secrets() -> Vec<String> {
    let is_secret = |name: &str| SECRET_WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word));
    env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_secret)).filter_map(|(_, value)| value.into_string().ok()).collect()
}
