//! The decision about a package, a version, a file: pure, and each refusal names its rule.
//!
//! `locked` asks the lock files alone, since somebody chose each file there; `allowlist` and `open` also ask how long a version has been out.
//! What a package's maker could run during an install is asked in every mode.

use std::fmt;

use ringfence_policy::{Ecosystem, InstallScripts, PackageMode, PackageName, PackageVersion, Packages, SourceBuilds};
use time::OffsetDateTime;

use super::digest::FileHash;
use super::pins::Pins;

/// A rule that can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The language has no packages.
    Off,
    /// Only what a lock file pins.
    Lock,
    /// Only what the list names.
    Allowlist,
    /// Only what has been out long enough.
    MinimumAge,
    /// Wheels only.
    SourceBuilds,
    /// Nothing that runs at its install.
    InstallScripts,
    /// The bytes are those that the index names.
    IndexHash,
    /// The bytes are those that the lock file names.
    LockHash,
    /// An archive unpacks into its own folder, into a bounded number of plain files.
    Archive,
    /// An index answers within bounds of size and time.
    Bounds,
}

impl Rule {
    /// The rule in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Off => "packages off",
            Self::Lock => "lock file",
            Self::Allowlist => "allowlist",
            Self::MinimumAge => "minimum age",
            Self::SourceBuilds => "source builds",
            Self::InstallScripts => "install scripts",
            Self::IndexHash => "hashes of the index",
            Self::LockHash => "hashes of the lock file",
            Self::Archive => "safe archives",
            Self::Bounds => "size and time",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Why something is not had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ringfence: {what} {why} (rule: {rule})")]
pub struct Refusal {
    /// What was refused, as a person names it.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
    /// By which rule.
    pub rule: Rule,
}

impl Refusal {
    pub(crate) fn new(what: impl fmt::Display, why: impl Into<String>, rule: Rule) -> Self {
        Self { what: what.to_string(), why: why.into(), rule }
    }
}

/// A file that an index offers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a PackageName,
    pub(crate) version: &'a PackageVersion,
    /// When it was published, if the index says so.
    pub(crate) published_at: Option<OffsetDateTime>,
    /// The hashes that the index names.
    pub(crate) hashes: &'a [FileHash],
    /// A Python source distribution.
    pub(crate) is_source: bool,
    /// A Node package that runs something at its install.
    pub(crate) has_scripts: bool,
}

/// What decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) ecosystem: Ecosystem,
    pub(crate) packages: &'a Packages,
    pub(crate) pins: &'a Pins,
    pub(crate) now: OffsetDateTime,
}

impl Rules<'_> {
    fn mode(&self) -> PackageMode {
        self.packages.mode(self.ecosystem)
    }

    /// Decides on a name, before anybody outside hears of it.
    pub(crate) fn name(&self, name: &PackageName) -> Result<(), Refusal> {
        let refuse = |why: &str, rule| Err(Refusal::new(format_args!("{} package {name}", self.ecosystem), why, rule));
        match self.mode() {
            PackageMode::None => refuse("is of a language without packages", Rule::Off),
            PackageMode::Locked if !self.pins.has(self.ecosystem, name) => refuse("is in no lock file", Rule::Lock),
            PackageMode::Allowlist if !self.packages.lists(self.ecosystem, name) => refuse("is not on the list", Rule::Allowlist),
            PackageMode::Locked | PackageMode::Allowlist | PackageMode::Open => Ok(()),
        }
    }

    /// Decides on a file that an index offers.
    pub(crate) fn file(&self, file: &Candidate<'_>) -> Result<(), Refusal> {
        self.name(file.name)?;
        self.version(file)?;
        self.age(file)?;
        self.code(file)?;
        match file.hashes.is_empty() {
            true => Err(self.refuse(file, "has no hash in the index", Rule::IndexHash)),
            false => Ok(()),
        }
    }

    fn refuse(&self, file: &Candidate<'_>, why: impl Into<String>, rule: Rule) -> Refusal {
        Refusal::new(format_args!("{} {}", file.name, file.version), why, rule)
    }

    fn version(&self, file: &Candidate<'_>) -> Result<(), Refusal> {
        match self.mode() {
            PackageMode::None => Err(self.refuse(file, "is of a language without packages", Rule::Off)),
            PackageMode::Locked => match self.pins.hashes(self.ecosystem, file.name, file.version) {
                None => Err(self.refuse(file, "is in no lock file", Rule::Lock)),
                Some(pinned) if !can_be(file.hashes, pinned.iter()) => {
                    Err(self.refuse(file, "has another hash in the index than in the lock file", Rule::LockHash))
                }
                Some(_) => Ok(()),
            },
            PackageMode::Allowlist if !self.packages.lists_version(self.ecosystem, file.name, file.version) => {
                Err(self.refuse(file, "fits no rule of the list", Rule::Allowlist))
            }
            PackageMode::Allowlist | PackageMode::Open => Ok(()),
        }
    }

    fn age(&self, file: &Candidate<'_>) -> Result<(), Refusal> {
        let minimum = self.packages.minimum_age;
        if self.mode() <= PackageMode::Locked || minimum.as_millis() == 0 {
            return Ok(());
        }
        let Some(published_at) = file.published_at else {
            return Err(self.refuse(file, "has no time of publication in the index", Rule::MinimumAge));
        };
        match (self.now - published_at).whole_milliseconds() >= i128::from(minimum.as_millis()) {
            true => Ok(()),
            false => Err(self.refuse(file, format!("is younger than {minimum}"), Rule::MinimumAge)),
        }
    }

    fn code(&self, file: &Candidate<'_>) -> Result<(), Refusal> {
        if file.is_source && self.packages.source_builds == SourceBuilds::None {
            return Err(self.refuse(file, "would be built from source", Rule::SourceBuilds));
        }
        match file.has_scripts && self.packages.install_scripts == InstallScripts::None {
            true => Err(self.refuse(file, "runs scripts at its install", Rule::InstallScripts)),
            false => Ok(()),
        }
    }
}

/// True unless both sides name hashes of one algorithm and have none of them in common. (Where they name different ones, the bytes tell.)
fn can_be<'a>(offered: &[FileHash], mut pinned: impl Iterator<Item = &'a FileHash> + Clone) -> bool {
    let is_comparable = |pin: &FileHash| offered.iter().any(|hash| hash.algorithm() == pin.algorithm());
    !pinned.clone().all(is_comparable) || pinned.any(|pin| offered.contains(pin))
}
