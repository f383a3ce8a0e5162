//! npm's settings: `registry` and the credentials for it, from the environment, the person's file, the machine's file, in this order.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_policy::Ecosystem;

use super::{Operator, Upstream, UpstreamError, ini};
use crate::packages::secret::Secret;

const HINT: &str = "run `npm config set registry URL`";

pub(super) fn read(operator: &Operator<'_>, warnings: &mut Vec<String>) -> Result<Upstream, UpstreamError> {
    let settings = Settings::read(operator)?;
    if settings.0.iter().any(|(key, _)| key.starts_with('@') && key.ends_with(":registry")) {
        warnings.push("npm's registries of single scopes are not heeded: every scope is asked of `registry`".to_owned());
    }
    let unnamed = UpstreamError::Unnamed { ecosystem: Ecosystem::Node, client: "npm", hint: HINT };
    let upstream = Upstream::parse("npm", settings.get("registry").ok_or(unnamed)?, HINT)?;
    let authorization = upstream.authorization.clone().or_else(|| settings.authorization(&upstream));
    Ok(Upstream { authorization, certificates: settings.get("cafile").map(PathBuf::from), ..upstream })
}

/// Settings, the winning ones first.
struct Settings(Vec<(String, String)>);

impl Settings {
    fn read(operator: &Operator<'_>) -> Result<Self, UpstreamError> {
        let mut settings = Self(of_environment(operator));
        let of_home = || operator.variable("HOME").map(|home| format!("{home}/.npmrc"));
        if let Some(path) = settings.get("userconfig").map(str::to_owned).or_else(of_home) {
            settings.add(operator, &path)?;
        }
        let of_prefix = settings.get("prefix").map(|prefix| format!("{prefix}/etc/npmrc"));
        let named = settings.get("globalconfig").map(str::to_owned).or(of_prefix);
        let usual = ["/usr/local/etc/npmrc", "/usr/etc/npmrc", "/etc/npmrc"].map(str::to_owned);
        for path in named.into_iter().chain(usual) {
            settings.add(operator, &path)?;
        }
        Ok(settings)
    }

    fn add(&mut self, operator: &Operator<'_>, path: &str) -> Result<(), UpstreamError> {
        let text = operator.text("npm", path)?.unwrap_or_default();
        // In one file the later line wins.
        let expand = |value: &str| expanded(operator, value);
        self.0.extend(ini::settings(&text, &['=']).into_iter().rev().map(|setting| (setting.key.to_owned(), expand(setting.value))));
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Credentials stand under `//HOST/PATH/:KEY`, for the registry's own path or one above it; very old ones under the bare key.
    fn authorization(&self, upstream: &Upstream) -> Option<Secret<String>> {
        let url = upstream.url.as_str();
        let mut place = url.split_once(':').map_or(url, |(_, rest)| rest);
        loop {
            if let Some(found) = self.authorization_at(&format!("{place}:")) {
                return Some(found);
            }
            let above = place.trim_end_matches('/');
            match above.rfind('/').filter(|at| *at > 1) {
                Some(at) => place = &place[..=at],
                None => return self.authorization_at(""),
            }
        }
    }

    fn authorization_at(&self, place: &str) -> Option<Secret<String>> {
        let get = |key: &str| self.get(&format!("{place}{key}"));
        if let Some(token) = get("_authToken") {
            return Some(Secret::new(format!("Bearer {token}")));
        }
        if let Some(pair) = get("_auth") {
            return Some(Secret::new(format!("Basic {pair}")));
        }
        let password = STANDARD.decode(get("_password")?).ok()?;
        let pair = [get("username")?.as_bytes(), b":", &password].concat();
        Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))))
    }
}

/// `npm_config_KEY`, in whichever case; `_` stands for `-`.
fn of_environment(operator: &Operator<'_>) -> Vec<(String, String)> {
    let read = |(name, value): (&String, &String)| {
        let prefix = name.get(..11).filter(|prefix| prefix.eq_ignore_ascii_case("npm_config_"))?;
        Some((name[prefix.len()..].to_ascii_lowercase().replace('_', "-"), value.clone()))
    };
    operator.environment.iter().filter_map(read).collect()
}

/// `${NAME}` stands for a variable of the environment.
fn expanded(operator: &Operator<'_>, value: &str) -> String {
    let Some((before, rest)) = value.split_once("${") else { return value.to_owned() };
    match rest.split_once('}') {
        Some((name, after)) => format!("{before}{}{}", operator.variable(name).unwrap_or_default(), expanded(operator, after)),
        None => value.to_owned(),
    }
}
