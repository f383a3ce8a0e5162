//! What differs between two artifacts, and what one would change in a target: shown, and nothing asked.

use ringfence_evidence::Digest;
use ringfence_patch::{Blob, Edit, Mode, render};
use ringfence_policy::TargetName;
use ringfence_store::{Index, RunId, now};

use super::destination::Destination;
use super::document::{Asked, Provenance};
use super::error::PromotionError;
use super::folder::Folder;
use super::source::Source;
use crate::run::Runner;

impl Runner {
    /// Where an artifact is from, by the newest run that made it, whose record holds.
    pub fn provenance(&self, artifact: Digest) -> Result<Provenance, PromotionError> {
        Source::find(self, artifact).map(|source| source.what)
    }

    /// What differs between two artifacts, harmless for a terminal.
    pub fn difference(&self, older: Digest, newer: Digest) -> Result<String, PromotionError> {
        let blob = |digest: &Digest| Source::bytes(self, digest).map(|bytes| Blob { mode: Mode::Plain, bytes });
        let made = Index::open(&self.home)?.made(&newer)?;
        let path = made.first().map_or_else(|| newer.to_string(), |made| made.path.clone()).into_bytes();
        let (old, new) = (blob(&older)?, blob(&newer)?);
        Ok(if old == new { "no difference\n".to_owned() } else { render(&[Edit { path, old: Some(old), new: Some(new) }]) })
    }

    /// What an artifact would change in a target as it is now, harmless for a terminal.
    pub fn difference_to(&self, artifact: Digest, target: &TargetName) -> Result<String, PromotionError> {
        let target = self.target(target)?;
        let source = Source::find(self, artifact)?;
        source.may_go_to(target, &self.settings.ceiling)?;
        let asked = Asked {
            promotion: RunId::new().map_err(crate::error::RunError::Random)?.to_string(),
            what: source.what,
            target: target.clone(),
            policy: self.settings.digest,
            requested_by: String::new(),
            requested_at: now(),
            message: String::new(),
            undoes: None,
        };
        let work = Folder::passing_work(&self.home, &asked.promotion)?;
        let destination = Destination::open(&asked, work.path(), &self.surroundings.environment)?;
        let base = destination.look(target)?;
        destination.edits(&base, Source::bytes(self, &artifact)?, &asked).map(|edits| render(&edits))
    }
}
