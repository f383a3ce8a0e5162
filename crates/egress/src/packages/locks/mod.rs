//! Lock files, read into pins. A lock that leaves a file unnamed is refused whole: what it says would then not be what is installed.

mod cargo;
mod npm;
mod requirements;
mod uv;

use ringfence_policy::{Ecosystem, PackageName, PackageVersion};

use super::digest::FileHash;
use super::pins::Pins;

/// Larger lock files are not read.
const MOST_BYTES: usize = 32 << 20;

/// What is wrong in a lock file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {cause}", .line.map_or_else(String::new, |line| format!(":{line}")))]
pub struct LockError {
    /// The file as the person named it.
    pub file: String,
    /// Line, from 1, if it is about one.
    pub line: Option<usize>,
    /// What is wrong.
    pub cause: String,
    /// How to mend it.
    pub fix: String,
}

/// Reads a lock file; which format it is, its name says.
pub fn parse_lock(file: &str, text: &str) -> Result<Pins, LockError> {
    let lock = Lock { file, text };
    if text.len() > MOST_BYTES {
        return Err(lock.whole(format!("has more than {} MiB", MOST_BYTES >> 20), "lock what the project needs, without what it does not"));
    }
    match file.rsplit('/').next().unwrap_or(file) {
        "uv.lock" => uv::parse(&lock),
        "package-lock.json" | "npm-shrinkwrap.json" => npm::parse(&lock),
        "Cargo.lock" => cargo::parse(&lock),
        name if name.ends_with(".txt") => requirements::parse(&lock),
        _ => Err(lock.whole(
            "is no lock file that is known".to_owned(),
            "name a requirements.txt with hashes, a uv.lock, a package-lock.json or a Cargo.lock",
        )),
    }
}

/// Where messages point to.
struct Lock<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lock<'_> {
    fn whole(&self, cause: String, fix: &str) -> LockError {
        LockError { file: self.file.to_owned(), line: None, cause, fix: fix.to_owned() }
    }

    fn at_line(&self, line: usize, cause: String, fix: &str) -> LockError {
        LockError { line: Some(line), ..self.whole(cause, fix) }
    }

    fn at_byte(&self, byte: usize, cause: String, fix: &str) -> LockError {
        let before = self.text.get(..byte.min(self.text.len())).unwrap_or_default();
        self.at_line(before.matches('\n').count() + 1, cause, fix)
    }

    /// One version of a package, pinned to hashes. `byte` is where it stands.
    fn pin(&self, pins: &mut Pins, ecosystem: Ecosystem, byte: usize, pinned: Pinned<'_>) -> Result<(), LockError> {
        let fix = "lock the project anew";
        let name = PackageName::parse(ecosystem, pinned.name).map_err(|why| self.at_byte(byte, why.to_string(), fix))?;
        let version = PackageVersion::parse(ecosystem, pinned.version).map_err(|why| self.at_byte(byte, why.to_string(), fix))?;
        if pinned.hashes.is_empty() {
            return Err(self.at_byte(byte, format!("`{name}` {version} has no hash"), pinned.fix));
        }
        pinned.hashes.into_iter().for_each(|hash| pins.add(ecosystem, name.clone(), version.clone(), hash));
        Ok(())
    }
}

/// What a lock file says of one version.
struct Pinned<'a> {
    name: &'a str,
    version: &'a str,
    hashes: Vec<FileHash>,
    /// What to do if there is no hash.
    fix: &'a str,
}

#[cfg(test)]
mod tests;
