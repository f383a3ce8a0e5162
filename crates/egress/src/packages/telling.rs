//! Telling the witness: of each thing once, and of no more refusals than a person would read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_policy::{Ecosystem, PackageName, PackageVersion};

use super::answer::Denied;
use super::index::{Index, blocking};
use super::rules::{Refusal, Rule};
use super::witness::{PackageDecision, PackageEvent};

impl Index {
    /// Records that a file is served, each once. What cannot be recorded must not happen.
    pub(crate) async fn tell_served(&self, event: PackageEvent) -> Result<(), Denied> {
        let what = event.file.clone();
        match self.tell(event, &self.served, self.limits.files).await? {
            true => Ok(()),
            false => Err(Refusal::new(what, "is one file too many for one run", Rule::Bounds).into()),
        }
    }

    /// Records a refusal, each once. It stands whether or not it can be recorded.
    pub(crate) async fn tell_refused(&self, event: PackageEvent) {
        drop(self.tell(event, &self.refused, self.limits.refusals).await);
    }

    /// True if the event is on record; false if there are too many.
    async fn tell(&self, event: PackageEvent, told: &Mutex<BTreeSet<String>>, most: usize) -> Result<bool, Denied> {
        // Fetched or kept, the same bytes are the same event: clients ask for a file more than once.
        let key = format!("{:?}", (event.ecosystem, &event.name, &event.version, &event.file, &event.decision, &event.sha256));
        {
            let told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.contains(&key) || told.len() >= most {
                return Ok(told.contains(&key));
            }
        }
        let witness = Arc::clone(&self.witness);
        blocking(move || witness.tell(event).map_err(|_| Denied::Unrecorded)).await?;
        told.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        Ok(true)
    }

    /// Records a refusal of a name or a version.
    pub(crate) async fn tell_left_out(&self, ecosystem: Ecosystem, name: &PackageName, version: Option<&PackageVersion>, rule: Rule) {
        self.tell_refused(PackageEvent {
            ecosystem,
            name: name.to_string(),
            version: version.map(PackageVersion::to_string).unwrap_or_default(),
            file: String::new(),
            decision: PackageDecision::Refused { rule },
            sha256: None,
            source: None,
            is_from_cache: false,
            bytes: 0,
        })
        .await;
    }

    /// Records why versions are missing from a page: nothing else tells of them. That some are in no lock file or on no list goes without
    /// saying, so long as others are left.
    pub(crate) async fn tell_left_out_of<'a>(
        &self,
        ecosystem: Ecosystem,
        name: &PackageName,
        left_out: impl Iterator<Item = (&'a PackageVersion, &'a Refusal)>,
        is_nothing_left: bool,
    ) {
        for (version, refusal) in left_out {
            if is_nothing_left || !matches!(refusal.rule, Rule::Lock | Rule::Allowlist) {
                self.tell_left_out(ecosystem, name, Some(version), refusal.rule).await;
            }
        }
    }

    /// Records that a file of a refused version was asked for all the same.
    pub(crate) async fn refuse_version(
        &self,
        ecosystem: Ecosystem,
        name: &PackageName,
        version: &PackageVersion,
        refusal: Refusal,
    ) -> Denied {
        self.tell_left_out(ecosystem, name, Some(version), refusal.rule).await;
        refusal.into()
    }
}
