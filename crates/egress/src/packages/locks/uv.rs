//! `uv.lock`: each package with its source, its source distribution and its wheels. What is in the project itself has nothing to fetch.

use ringfence_policy::Ecosystem;
use serde::Deserialize;
use toml::Spanned;

use super::{Lock, LockError, Pinned};
use crate::packages::digest::FileHash;
use crate::packages::pins::Pins;

#[derive(Deserialize)]
struct UvLock {
    #[serde(default, rename = "package")]
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: Spanned<String>,
    version: Option<String>,
    /// A table whose one key says what kind of source it is.
    source: toml::Table,
    sdist: Option<File>,
    #[serde(default)]
    wheels: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    hash: Option<String>,
}

pub(super) fn parse(lock: &Lock<'_>) -> Result<Pins, LockError> {
    let read: UvLock = toml::from_str(lock.text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        lock.at_byte(byte, error.message().replace('\n', "; "), "write it anew: `uv lock`")
    })?;
    let mut pins = Pins::default();
    for package in &read.packages {
        match package.source.keys().next().map_or("an unknown place", String::as_str) {
            "registry" => pin(lock, &mut pins, package)?,
            "virtual" | "editable" | "directory" => {}
            kind => {
                let cause = format!("`{}` is from {kind} and not from the index", package.name.as_ref());
                return Err(lock.at_byte(
                    package.name.span().start,
                    cause,
                    "name a release of the index in pyproject.toml, and lock again",
                ));
            }
        }
    }
    Ok(pins)
}

fn pin(lock: &Lock<'_>, pins: &mut Pins, package: &Package) -> Result<(), LockError> {
    let (name, byte) = (package.name.as_ref(), package.name.span().start);
    let fix = "the index gave uv no hashes; lock against one that does";
    let read = |file: &File| file.hash.as_deref().and_then(FileHash::from_prefixed);
    let hashes: Option<Vec<FileHash>> = package.wheels.iter().chain(&package.sdist).map(read).collect();
    let hashes = hashes.ok_or_else(|| lock.at_byte(byte, format!("a file of `{name}` has no hash"), fix))?;
    let version = package.version.as_deref().unwrap_or_default();
    lock.pin(pins, Ecosystem::Python, byte, Pinned { name, version, hashes, fix })
}
