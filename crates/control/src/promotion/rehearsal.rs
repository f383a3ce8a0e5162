//! What would come of promoting what a run made: each target is opened and looked at, the rules are asked, and nothing is asked of anybody. For the audit.

use std::fs;

use ringfence_evidence::{EVENTS_FILE, Event, STATEMENT_FILE, verify};
use ringfence_policy::{ArtifactKind, Capabilities, Place, Target};
use ringfence_store::RunId;

use super::destination::{Base, Destination};
use super::document::{Asked, Provenance};
use super::error::PromotionError;
use super::folder::Folder;
use super::rules;
use crate::run::Runner;

/// What a target would take of a run, and what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Rehearsal {
    /// The target.
    pub(crate) target: Target,
    /// Kinds that could be asked for.
    pub(crate) kinds: Vec<ArtifactKind>,
    /// What the place holds, or why it cannot be looked at.
    pub(crate) holds: Result<String, String>,
}

impl Runner {
    /// Rehearses the promotion of every kind of artifact that a run could have made, to every target.
    pub(crate) fn rehearse(&self, run: &str) -> Result<Vec<Rehearsal>, PromotionError> {
        let (granted, what) = self.granted(run)?;
        let is_allowed = |kind: ArtifactKind, target: &Target| {
            let what = Provenance { kind, ..what.clone() };
            rules::refusal(&what, granted.as_ref(), &self.settings.ceiling, target).is_none()
        };
        let rehearse = |target: &Target| Rehearsal {
            kinds: ArtifactKind::ALL.iter().copied().filter(|kind| is_allowed(*kind, target)).collect(),
            holds: self.holds(&what, target).map_err(|error| error.to_string()),
            target: target.clone(),
        };
        Ok(self.settings.targets.values().map(rehearse).collect())
    }

    fn granted(&self, run: &str) -> Result<(Option<Capabilities>, Provenance), PromotionError> {
        let broken = |cause: String| PromotionError::Record { run: run.to_owned(), cause };
        let folder = self.home.runs().join(run);
        let file = |name: &str| fs::read(folder.join(name)).map_err(|e| broken(format!("{name}: {e}")));
        let verified = verify(&file(EVENTS_FILE)?, &file(STATEMENT_FILE)?, &self.key.public()).map_err(|e| broken(e.to_string()))?;
        let granted = verified.lines.iter().find_map(|line| match &line.event {
            Event::RunGranted { grant } => Some(grant.capabilities.clone()),
            _ => None,
        });
        Ok((granted, Provenance::of(&verified, run)))
    }

    /// Opens a place as a promotion would, and looks at it.
    fn holds(&self, what: &Provenance, target: &Target) -> Result<String, PromotionError> {
        let id = RunId::new().map_err(crate::error::RunError::Random)?.to_string();
        let work = Folder::passing_work(&self.home, &id)?;
        let asked = Asked {
            promotion: id,
            what: Provenance { path: "rehearsal.txt".into(), ..what.clone() },
            target: target.clone(),
            policy: self.settings.digest,
            requested_by: String::new(),
            requested_at: String::new(),
            message: String::new(),
            undoes: None,
        };
        let looked = Destination::open(&asked, work.path(), &self.surroundings.environment).and_then(|place| place.look(target));
        looked.map(|base| match (&target.place, base) {
            (Place::Git { branch, .. }, Base::Git(base)) => format!("branch {branch} at {}", base.commit),
            (Place::Directory { folder } | Place::Git { repository: folder, .. }, _) => format!("folder {folder}"),
        })
    }
}
