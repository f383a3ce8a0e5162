//! What lock files pin: an exact version of a package, and the hashes that its files may have.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_policy::{Ecosystem, PackageName, PackageVersion};

use super::digest::FileHash;

type Versions = BTreeMap<PackageVersion, BTreeSet<FileHash>>;

/// The pins of one or more lock files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins(BTreeMap<(Ecosystem, PackageName), Versions>);

impl Pins {
    /// Adds the hash of one file.
    pub fn add(&mut self, ecosystem: Ecosystem, name: PackageName, version: PackageVersion, hash: FileHash) {
        self.0.entry((ecosystem, name)).or_default().entry(version).or_default().insert(hash);
    }

    /// Adds all that others pin.
    pub fn extend(&mut self, others: Self) {
        for (package, versions) in others.0 {
            let ours = self.0.entry(package).or_default();
            versions.into_iter().for_each(|(version, hashes)| ours.entry(version).or_default().extend(hashes));
        }
    }

    /// True if some version of this package is pinned.
    pub fn has(&self, ecosystem: Ecosystem, name: &PackageName) -> bool {
        self.0.contains_key(&(ecosystem, name.clone()))
    }

    /// The hashes that files of this version may have; none if the version is not pinned.
    pub fn hashes(&self, ecosystem: Ecosystem, name: &PackageName, version: &PackageVersion) -> Option<&BTreeSet<FileHash>> {
        self.0.get(&(ecosystem, name.clone())).and_then(|versions| versions.get(version))
    }

    /// How many versions are pinned.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// True if nothing is pinned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
