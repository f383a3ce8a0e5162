//! `Cargo.lock`: each crate with its source and checksum. A crate without a source is part of the project and is not fetched.

use ringfence_policy::Ecosystem;
use serde::Deserialize;
use toml::Spanned;

use super::{Lock, LockError, Pinned};
use crate::packages::digest::{Algorithm, FileHash};
use crate::packages::pins::Pins;

#[derive(Deserialize)]
struct CargoLock {
    #[serde(default, rename = "package")]
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: Spanned<String>,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

pub(super) fn parse(lock: &Lock<'_>) -> Result<Pins, LockError> {
    let read: CargoLock = toml::from_str(lock.text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        lock.at_byte(byte, error.message().replace('\n', "; "), "write it anew: `cargo generate-lockfile`")
    })?;
    let mut pins = Pins::default();
    for package in &read.packages {
        let (name, byte) = (package.name.as_ref(), package.name.span().start);
        let Some(source) = &package.source else { continue };
        if !source.starts_with("registry+") && !source.starts_with("sparse+") {
            let kind = source.split('+').next().unwrap_or_default();
            let cause = format!("`{name}` is from {kind} and not from the index");
            return Err(lock.at_byte(byte, cause, "name a release of the index in Cargo.toml, and lock again"));
        }
        let hashes = package.checksum.iter().filter_map(|digits| FileHash::from_digits(Algorithm::Sha256, digits)).collect();
        let pinned =
            Pinned { name, version: &package.version, hashes, fix: "write it anew with a current cargo: `cargo generate-lockfile`" };
        lock.pin(&mut pins, Ecosystem::Rust, byte, pinned)?;
    }
    Ok(pins)
}
