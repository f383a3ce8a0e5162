//! What a run may install: pins from the lock files that were given, and the index that its sandbox sees.
//!
//! Lock files are read here, outside and before: what the program inside makes of its own copy changes nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ringfence_egress::INDEX_PORT;
use ringfence_egress::packages::{
    ClientSettings, Index, IndexLimits, IndexSetup, Operator, PackageWitness, Pins, Upstreams, client_settings, parse_lock,
};
use ringfence_evidence::Digest;
use ringfence_policy::{Ecosystem, PackageMode, Packages};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::request::RunRequest;

/// Lock files by the name that their makers give them.
const LOCKS: &[(&str, Ecosystem)] = &[
    ("requirements.txt", Ecosystem::Python),
    ("uv.lock", Ecosystem::Python),
    ("package-lock.json", Ecosystem::Node),
    ("npm-shrinkwrap.json", Ecosystem::Node),
    ("Cargo.lock", Ecosystem::Rust),
];
/// Larger ones are not read.
const MOST_BYTES: u64 = 33 << 20;

/// A lock file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockFile {
    /// Its name, as it was given.
    pub(crate) name: String,
    /// Whose packages it pins.
    ecosystem: Ecosystem,
    /// Its digest.
    pub(crate) sha256: Digest,
    /// How much it pins, or why it pins nothing.
    pub(crate) pins: Result<usize, String>,
}

/// What of packages was granted, and by which locks.
#[derive(Debug)]
pub(crate) struct PackagesAhead {
    packages: Packages,
    pins: Pins,
    pub(crate) locks: Vec<LockFile>,
}

impl PackagesAhead {
    /// Reads the locks that a grant needs; `None` where it grants no packages. A lock that does not read pins nothing, and is told of.
    pub(crate) fn of(packages: &Packages, request: &RunRequest) -> Option<Self> {
        if packages.most() == PackageMode::None {
            return None;
        }
        let mut ahead = Self { packages: packages.clone(), pins: Pins::default(), locks: Vec::new() };
        let is_wanted = |(_, ecosystem): &&(&str, Ecosystem)| packages.mode(*ecosystem) == PackageMode::Locked;
        for (name, ecosystem) in LOCKS.iter().filter(is_wanted) {
            for path in places(request, name) {
                ahead.add(name, *ecosystem, &path);
            }
        }
        Some(ahead)
    }

    fn add(&mut self, name: &str, ecosystem: Ecosystem, path: &Path) {
        let lock = |sha256, pins| LockFile { name: name.to_owned(), ecosystem, sha256, pins };
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.locks.push(lock(Digest::zero(), Err(format!("{name}: {error}")))),
            Ok(text) => {
                let parsed = parse_lock(name, &text);
                let pins = parsed.as_ref().map(Pins::len).map_err(|error| format!("{error}; {}", error.fix));
                self.locks.push(lock(Digest::of(text.as_bytes()), pins));
                self.pins.extend(parsed.unwrap_or_default());
            }
        }
    }

    /// What else the operator should know: without it the first that is heard of a missing index is an error inside.
    pub(crate) fn warnings(&self, environment: &BTreeMap<String, String>) -> Vec<String> {
        let upstreams = Upstreams::read(&Operator { environment, root: Path::new("/") });
        let missing = Ecosystem::ALL.into_iter().filter(|ecosystem| self.can_have_any(*ecosystem)).filter_map(|ecosystem| {
            let error = upstreams.of(ecosystem).err()?;
            Some(format!("no {ecosystem} package can be installed: {error}; hint: {}", error.hint()))
        });
        missing.chain(upstreams.warnings.iter().cloned()).collect()
    }

    /// A language in which nothing is pinned needs no index.
    fn can_have_any(&self, ecosystem: Ecosystem) -> bool {
        match self.packages.mode(ecosystem) {
            PackageMode::None => false,
            PackageMode::Locked => {
                self.locks.iter().any(|lock| lock.ecosystem == ecosystem && lock.pins.as_ref().is_ok_and(|pins| *pins > 0))
            }
            PackageMode::Allowlist | PackageMode::Open => true,
        }
    }

    /// What the clients inside are told.
    pub(crate) fn settings(&self) -> ClientSettings {
        client_settings(&self.packages, &base_url())
    }

    /// The index.
    pub(crate) fn index(
        self,
        environment: &BTreeMap<String, String>,
        cache: PathBuf,
        witness: Arc<dyn PackageWitness>,
    ) -> io::Result<Arc<Index>> {
        let setup = IndexSetup {
            packages: self.packages,
            pins: self.pins,
            upstreams: Upstreams::read(&Operator { environment, root: Path::new("/") }),
            cache,
            base_url: base_url(),
            limits: IndexLimits::default(),
            witness,
            clock: SystemTime::now,
        };
        Index::new(setup).map(Arc::new).map_err(io::Error::other)
    }
}

fn base_url() -> String {
    format!("http://127.0.0.1:{INDEX_PORT}")
}

/// Where a lock file of that name may have been given: in the project, as an input, or in a folder that is one.
fn places(request: &RunRequest, name: &str) -> Vec<PathBuf> {
    let inputs = request.inputs.iter().map(|input| if input.name == name { input.path.clone() } else { input.path.join(name) });
    request.project.iter().map(|project| project.join(name)).chain(inputs).collect()
}

/// A regular file, and no link to one: the folder is a stranger's.
fn read(path: &Path) -> io::Result<String> {
    let opened = openat(CWD, path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let file = match opened {
        Err(rustix::io::Errno::NOTDIR) => return Err(io::ErrorKind::NotFound.into()),
        opened => File::from(opened?),
    };
    let mut text = String::new();
    match file.metadata()? {
        meta if !meta.is_file() => Err(io::Error::other("it is not a regular file")),
        meta if meta.len() > MOST_BYTES => Err(io::Error::other("it is too long for a lock file")),
        _ => file.take(MOST_BYTES).read_to_string(&mut text).map(|_| text),
    }
}
