//! Runs a run again from its record, and explains what differs.
//!
//! It is run twice. What differs between the two differs by itself: by time or by chance, and the two outputs say which. What is the same in both, but
//! not as it was, differs by what surrounds the run: the image, the kernel, the inputs, the policy.

mod cause;
mod observed;
mod past;

use std::collections::BTreeSet;
use std::path::PathBuf;

use ringfence_isolation::OsText;
use ringfence_policy::EnvName;
use ringfence_store::RunId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::RunError;
use crate::profiles::ProfileText;
use crate::request::{Attachments, InputRequest, OutputTo, Progress, Secret};
use crate::run::Runner;
pub use cause::Cause;
use observed::Observed;
use past::Past;

/// What is needed to run it again that a record does not hold: contents and values.
#[derive(Debug, Default)]
pub struct ReplayRequest {
    /// Inputs, under the names that they had.
    pub inputs: Vec<InputRequest>,
    /// The project.
    pub project: Option<PathBuf>,
    /// Variables.
    pub environment: Vec<(EnvName, OsText)>,
    /// The profile, where it is in a file of its own.
    pub profile: Option<ProfileText>,
    /// Values that must not stand in the record.
    pub known_secrets: Vec<Secret>,
    /// People's homes, as for a run.
    pub homes: Vec<PathBuf>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replay {
    /// The run that was repeated.
    pub run: String,
    /// The two runs that repeated it, each on record.
    pub runs: Vec<String>,
    /// True if everything that was observed is as it was.
    pub is_same: bool,
    /// What surrounds the run and is not as it was, whether or not it changed anything.
    pub surroundings: Vec<Changed>,
    /// What was observed and is not as it was.
    pub differences: Vec<Difference>,
}

/// Something around a run that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changed {
    /// What.
    pub what: String,
    /// As it was.
    pub then: String,
    /// As it is.
    pub now: String,
}

/// Something that was observed and is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// `end`, `stdout`, `stderr` or `artifact PATH`.
    pub what: String,
    /// As it was.
    pub then: String,
    /// As it is.
    pub now: String,
    /// Why, as far as that can be told.
    pub cause: Cause,
    /// What shows it.
    pub because: String,
}

/// Why a run was not repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Its record does not hold.
    #[error("the record of run `{run}` does not hold: {cause}")]
    Record {
        /// The run.
        run: String,
        /// What is wrong.
        cause: String,
    },
    /// It never ran.
    #[error("run `{run}` cannot be repeated: {cause}")]
    NotRun {
        /// The run.
        run: String,
        /// Why.
        cause: String,
    },
    /// Something has to be given again.
    #[error("run `{run}` had {what}, which a record does not hold")]
    Missing {
        /// The run.
        run: String,
        /// What.
        what: String,
        /// How to give it.
        hint: String,
    },
    /// The repetition could not be recorded.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ReplayError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Record { .. } => "a record that was changed cannot be repeated; `ringfence evidence verify` says where".into(),
            Self::NotRun { run, .. } => format!("`ringfence evidence show {run}` says what happened"),
            Self::Missing { hint, .. } => hint.clone(),
            Self::Run(error) => error.hint(),
            Self::Interrupted => "run the same command again".into(),
        }
    }
}

impl Runner {
    /// Runs a run again, twice, and explains what differs. Both are ordinary runs, on record.
    pub fn replay(&self, run: &RunId, request: &ReplayRequest, attachments: Attachments<'_>) -> Result<Replay, ReplayError> {
        let past = Past::read(self, run)?;
        let again = past.request(self, request)?;
        let Attachments { progress, cancel, .. } = attachments;
        let repeat = |progress: &mut dyn Progress| -> Result<Observed, ReplayError> {
            let report = self.run(&again, Attachments { output: OutputTo::Report, progress, cancel })?;
            if report.is_stopped {
                return Err(ReplayError::Interrupted);
            }
            Observed::of(self, &report)
        };
        let (first, second) = (repeat(progress)?, repeat(progress)?);
        let surroundings = past.surroundings.changed(&first.surroundings);
        let differences = self.differences(&past, &first, &second, &surroundings);
        Ok(Replay { run: run.to_string(), runs: vec![first.run, second.run], is_same: differences.is_empty(), surroundings, differences })
    }

    fn differences(&self, past: &Past, first: &Observed, second: &Observed, surroundings: &[Changed]) -> Vec<Difference> {
        let names: BTreeSet<&String> = past.facts.keys().chain(first.facts.keys()).chain(second.facts.keys()).collect();
        let absent = || "nothing".to_owned();
        let mut differences = Vec::new();
        for name in names {
            let of = |facts: &observed::Facts| facts.get(name).cloned().unwrap_or_else(absent);
            let (then, now, also) = (of(&past.facts), of(&first.facts), of(&second.facts));
            if then == now && now == also {
                continue;
            }
            let contents = (observed::content(self, first, name), observed::content(self, second, name));
            let (cause, because) = match (now == also, surroundings) {
                (false, _) => cause::between(&contents.0, &contents.1),
                (true, []) => cause::since(&past.content(self, name), &contents.0),
                (true, changed) => (Cause::Environment, named(changed)),
            };
            let now = if now == also { now } else { format!("{now}, then {also}") };
            differences.push(Difference { what: name.clone(), then, now, cause, because });
        }
        differences
    }
}

fn named(changed: &[Changed]) -> String {
    let names: Vec<&str> = changed.iter().map(|changed| changed.what.as_str()).collect();
    format!("it is the same each time now; what surrounds it changed: {}", names.join(", "))
}
