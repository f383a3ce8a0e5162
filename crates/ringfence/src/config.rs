//! The one place that reads this process's environment.
#![allow(clippy::disallowed_methods, reason = "this is the place")]

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use ringfence_control::{Secret, names_a_secret};
use ringfence_store::KeySources;

/// What the environment says.
#[derive(Clone)]
pub(crate) struct Config {
    /// Where everything is kept.
    pub(crate) home: PathBuf,
    user_home: Option<PathBuf>,
    /// Where the key of stored credentials comes from.
    pub(crate) key_sources: KeySources,
    /// The server that is asked where the command line names none.
    pub(crate) server: Option<String>,
    /// The key by which a server knows who asks.
    pub(crate) api_key: Option<Secret>,
    /// Every variable that is text.
    pub(crate) environment: BTreeMap<String, String>,
    /// Values of variables whose names say that they hold secrets.
    pub(crate) known_secrets: Vec<Secret>,
}

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
        let key_sources = KeySources {
            text: env::var("RINGFENCE_CREDENTIAL_KEY").ok().filter(|text| !text.is_empty()),
            file: env::var_os("RINGFENCE_CREDENTIAL_KEY_FILE").filter(|path| !path.is_empty()).map(PathBuf::from),
        };
        let environment = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let (server, api_key) = (text("RINGFENCE_SERVER"), text("RINGFENCE_API_KEY").map(Secret::new));
        Ok(Self { home, user_home, key_sources, server, api_key, environment, known_secrets: known_secrets() })
    }

    /// Where the usual client of registries keeps its settings.
    pub(crate) fn registry_settings(&self) -> Option<PathBuf> {
        let named = env::var_os("DOCKER_CONFIG").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        named.or_else(|| self.user_home.as_ref().map(|home| home.join(".docker"))).map(|folder| folder.join("config.json"))
    }

    /// Where a person's private key is made, if no file is named.
    pub(crate) fn person_key(&self, name: &str) -> Option<PathBuf> {
        let named = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder = named.or_else(|| self.user_home.as_ref().map(|home| home.join(".config")))?;
        Some(folder.join("ringfence").join(format!("{name}.key")))
    }

    /// Home folders of people, as the environment and the password file name them. (A service may have neither, or a wrong one.)
    pub(crate) fn homes(&self) -> Vec<PathBuf> {
        homes(self.user_home.clone())
    }
}

/// The caller's own by the environment, root's, and those of the users from 1000 on.
fn homes(own: Option<PathBuf>) -> Vec<PathBuf> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let listed = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let uid: u32 = fields.next()?.parse().ok()?;
        let home = fields.nth(2).filter(|home| home.len() > 1)?;
        (uid == 0 || (1000..65_534).contains(&uid)).then(|| PathBuf::from(home))
    });
    own.into_iter().chain(listed).filter_map(|home| home.canonicalize().ok()).collect()
}

fn known_secrets() -> Vec<Secret> {
    env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(names_a_secret))
        .filter_map(|(_, value)| value.into_string().ok().map(Secret::new))
        .collect()
}
