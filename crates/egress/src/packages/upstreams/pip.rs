//! pip's settings: `index-url` from the environment, or from `[install]` before `[global]`, of the files that pip reads, later ones winning.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfence_policy::Ecosystem;

use super::{Operator, Upstream, UpstreamError, ini};

const HINT: &str = "run `pip config set global.index-url URL`";

pub(super) fn read(operator: &Operator<'_>, warnings: &mut Vec<String>) -> Result<Upstream, UpstreamError> {
    let files = read_files(operator)?;
    let setting = |key: &str| {
        let variable = format!("PIP_{}", key.to_ascii_uppercase().replace('-', "_"));
        let of_files = ["install", "global"].into_iter().find_map(|section| files.get(&(section.to_owned(), key.to_owned())).cloned());
        operator.variable(&variable).map(str::to_owned).or(of_files)
    };
    if setting("extra-index-url").is_some() {
        warnings.push("pip's extra-index-url is not heeded: a package has one place to be from".to_owned());
    }
    let unnamed = UpstreamError::Unnamed { ecosystem: Ecosystem::Python, client: "pip", hint: HINT };
    let upstream = Upstream::parse("pip", &setting("index-url").ok_or(unnamed)?, HINT)?;
    Ok(Upstream { certificates: setting("cert").map(PathBuf::from), ..upstream })
}

/// The settings of all files by section and key.
fn read_files(operator: &Operator<'_>) -> Result<BTreeMap<(String, String), String>, UpstreamError> {
    let mut merged = BTreeMap::new();
    let named = operator.variable("PIP_CONFIG_FILE");
    if named == Some("/dev/null") {
        return Ok(merged);
    }
    let mut paths = vec!["/etc/xdg/pip/pip.conf".to_owned(), "/etc/pip.conf".to_owned()];
    paths.extend(operator.variable("HOME").map(|home| format!("{home}/.pip/pip.conf")));
    paths.extend(operator.folder("XDG_CONFIG_HOME", ".config").map(|folder| format!("{folder}/pip/pip.conf")));
    paths.extend(named.map(str::to_owned));
    for path in paths {
        let text = operator.text("pip", &path)?.unwrap_or_default();
        for setting in ini::settings(&text, &['=', ':']) {
            merged.insert((setting.section.to_owned(), setting.key.to_ascii_lowercase().replace('_', "-")), setting.value.to_owned());
        }
    }
    Ok(merged)
}
