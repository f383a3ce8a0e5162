//! One file, from its place outside to the first byte inside: found or fetched, hashed, looked into, recorded, served. In this order.

use std::sync::Arc;

use reqwest::Url;
use ringfence_policy::{Ecosystem, InstallScripts, PackageMode, PackageName, PackageVersion};

use super::answer::{self, Answer, Denied};
use super::archive::{self, Fault, Format};
use super::cache::Verified;
use super::client::FetchError;
use super::digest::{Algorithm, Digests, FileHash};
use super::index::{Index, blocking};
use super::rules::{Refusal, Rule};
use super::witness::{PackageDecision, PackageEvent};

/// A file that the rules allow.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) ecosystem: Ecosystem,
    pub(crate) name: PackageName,
    pub(crate) version: PackageVersion,
    /// Its name, with the word for what it is.
    pub(crate) file: String,
    pub(crate) what: &'static str,
    pub(crate) format: Format,
    pub(crate) url: Url,
    /// The hashes that the index names.
    pub(crate) hashes: Vec<FileHash>,
}

impl Wanted {
    fn refusal(&self, why: impl Into<String>, rule: Rule) -> Refusal {
        Refusal::new(format_args!("{} {}", self.what, self.file), why, rule)
    }

    fn event(&self, decision: PackageDecision) -> PackageEvent {
        // What follows `?` in an address may be a signature that is worth as much as a password.
        let mut source = self.url.clone();
        source.set_query(None);
        source.set_fragment(None);
        let is_bare = source.set_username("").and_then(|()| source.set_password(None)).is_ok();
        PackageEvent {
            ecosystem: self.ecosystem,
            name: self.name.to_string(),
            version: self.version.to_string(),
            file: self.file.clone(),
            decision,
            sha256: None,
            source: is_bare.then(|| source.to_string()),
            is_from_cache: false,
            bytes: 0,
        }
    }
}

impl Index {
    /// Answers with a file, or with why not.
    pub(crate) async fn file(self: &Arc<Self>, wanted: Wanted) -> Result<Answer, Denied> {
        match self.verified(&wanted).await {
            Ok((verified, is_from_cache)) => {
                self.take_bytes(verified.digests.bytes())?;
                self.tell_served(PackageEvent {
                    sha256: Some(verified.digests.of_algorithm(Algorithm::Sha256).digits().to_owned()),
                    is_from_cache,
                    bytes: verified.digests.bytes(),
                    ..wanted.event(PackageDecision::Served)
                })
                .await?;
                Ok(answer::file(verified))
            }
            Err(Denied::Refused(refusal)) => {
                self.tell_refused(wanted.event(PackageDecision::Refused { rule: refusal.rule })).await;
                Err(refusal.into())
            }
            Err(other) => Err(other),
        }
    }

    /// The file's bytes, checked; and whether they were kept from earlier.
    async fn verified(self: &Arc<Self>, wanted: &Wanted) -> Result<(Verified, bool), Denied> {
        if let Some(kept) = self.kept(wanted).await? {
            return Ok((kept, true));
        }
        self.fetch(wanted).await?;
        let kept = self.kept(wanted).await?;
        kept.map(|kept| (kept, false)).ok_or(Denied::Storage)
    }

    async fn kept(self: &Arc<Self>, wanted: &Wanted) -> Result<Option<Verified>, Denied> {
        let (index, wanted) = (Arc::clone(self), wanted.clone());
        blocking(move || {
            let Some(kept) = index.cache.find(wanted.format, &wanted.hashes).map_err(|_| Denied::Storage)? else { return Ok(None) };
            index.check_pin(&wanted, &kept.digests)?;
            // Another run may have allowed scripts when it fetched the file.
            if wanted.format == Format::NodeTarball {
                index.look_into(&wanted, &kept.file)?;
            }
            rewound(kept).map(Some)
        })
        .await
    }

    /// Fetches a file, checks it, and keeps it.
    async fn fetch(self: &Arc<Self>, wanted: &Wanted) -> Result<(), Denied> {
        let client = self.client(wanted.ecosystem)?;
        let draft = self.cache.draft().map_err(|_| Denied::Storage)?;
        let permit = self.fetches.acquire().await.map_err(|_| Denied::Storage)?;
        let (draft, digests) = client.file(&wanted.url, draft).await.map_err(|error| fetch_denied(wanted, &error))?;
        drop(permit);
        self.spend_bytes(digests.bytes(), &wanted.file)?;
        let (index, wanted) = (Arc::clone(self), wanted.clone());
        blocking(move || {
            if !digests.has_all(&wanted.hashes) {
                return Err(wanted.refusal("does not match its hash", Rule::IndexHash).into());
            }
            index.check_pin(&wanted, &digests)?;
            let file = draft.reader().map_err(|_| Denied::Storage)?;
            index.look_into(&wanted, &file)?;
            index.cache.admit(&draft, wanted.format, &digests).map_err(|_| Denied::Storage)?;
            index.make_room_once()
        })
        .await
    }

    /// What a lock file pins are bytes, whatever the index says of them.
    fn check_pin(&self, wanted: &Wanted, digests: &Digests) -> Result<(), Denied> {
        if self.packages.mode(wanted.ecosystem) != PackageMode::Locked {
            return Ok(());
        }
        let pinned = self.pins.hashes(wanted.ecosystem, &wanted.name, &wanted.version);
        match pinned.is_some_and(|hashes| hashes.iter().any(|hash| digests.has(hash))) {
            true => Ok(()),
            false => Err(wanted.refusal("has another hash than in the lock file", Rule::LockHash).into()),
        }
    }

    fn look_into(&self, wanted: &Wanted, file: &std::fs::File) -> Result<(), Denied> {
        let are_scripts_allowed = self.packages.install_scripts == InstallScripts::Any;
        archive::inspect(file, wanted.format, &self.limits, are_scripts_allowed).map_err(|fault| {
            let rule = if matches!(fault, Fault::Scripts) { Rule::InstallScripts } else { Rule::Archive };
            wanted.refusal(fault.to_string(), rule).into()
        })
    }
}

fn rewound(mut kept: Verified) -> Result<Verified, Denied> {
    std::io::Seek::rewind(&mut kept.file).map(|()| kept).map_err(|_| Denied::Storage)
}

fn fetch_denied(wanted: &Wanted, error: &FetchError) -> Denied {
    match error {
        FetchError::Absent => Denied::Absent(wanted.file.clone()),
        FetchError::Large(_) | FetchError::Slow(_) => wanted.refusal(format!("was not taken: {error}"), Rule::Bounds).into(),
        FetchError::Keep(_) => Denied::Storage,
        FetchError::Status(_) | FetchError::Unreachable(_) | FetchError::Downgrade => {
            Denied::Upstream { ecosystem: wanted.ecosystem, why: error.to_string() }
        }
    }
}
