//! `package-lock.json` of version 2 or 3: a map from places in `node_modules` to packages. Links and bundled packages are not fetched.

use std::collections::BTreeMap;

use ringfence_policy::Ecosystem;
use serde::Deserialize;

use super::{Lock, LockError, Pinned};
use crate::packages::digest::FileHash;
use crate::packages::pins::Pins;

const ANEW: &str = "write it anew: `npm install --package-lock-only --lockfile-version 3`";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackageLock {
    lockfile_version: Option<u64>,
    #[serde(default)]
    packages: BTreeMap<String, Package>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    name: Option<String>,
    version: Option<String>,
    resolved: Option<String>,
    integrity: Option<String>,
    #[serde(default)]
    link: bool,
    #[serde(default)]
    in_bundle: bool,
}

pub(super) fn parse(lock: &Lock<'_>) -> Result<Pins, LockError> {
    let read: PackageLock = serde_json::from_str(lock.text).map_err(|error| lock.at_line(error.line().max(1), error.to_string(), ANEW))?;
    if !matches!(read.lockfile_version, Some(2 | 3)) {
        let version = read.lockfile_version.map_or_else(|| "without a version".to_owned(), |version| format!("of version {version}"));
        return Err(lock.whole(format!("is a lock file {version}, which does not name every package with its place"), ANEW));
    }
    let mut pins = Pins::default();
    for (place, package) in read.packages.iter().filter(|(place, package)| is_fetched(place, package)) {
        pin(lock, &mut pins, place, package)?;
    }
    Ok(pins)
}

/// A place outside `node_modules` is the project or a part of it.
fn is_fetched(place: &str, package: &Package) -> bool {
    place.contains("node_modules/") && !package.link && !package.in_bundle
}

fn pin(lock: &Lock<'_>, pins: &mut Pins, place: &str, package: &Package) -> Result<(), LockError> {
    let byte = lock.text.find(&format!("\"{place}\"")).unwrap_or_default();
    let name = package.name.as_deref().or_else(|| place.rsplit("node_modules/").next()).unwrap_or(place);
    let version = package.version.as_deref().unwrap_or_default();
    if package.resolved.as_deref().is_some_and(|resolved| !is_of_an_index(resolved, name, version)) {
        let cause = format!("`{name}` is from a place of its own and not from the index");
        return Err(lock.at_byte(byte, cause, "name a release of the index in package.json, and lock again"));
    }
    let hashes = package.integrity.as_deref().map(FileHash::from_integrity).unwrap_or_default();
    lock.pin(pins, Ecosystem::Node, byte, Pinned { name, version, hashes, fix: ANEW })
}

/// Indexes of Node packages keep a version's file at `NAME/-/NAME-VERSION.tgz`, without the scope the second time.
fn is_of_an_index(resolved: &str, name: &str, version: &str) -> bool {
    let path = resolved.split(['?', '#']).next().unwrap_or_default().replace("%2f", "/").replace("%2F", "/");
    let file = format!("/-/{}-{version}.tgz", name.rsplit('/').next().unwrap_or(name));
    (path.starts_with("https://") || path.starts_with("http://")) && path.ends_with(&file)
}
