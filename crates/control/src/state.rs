//! State: what a run begins with that an earlier one left, and what of it is kept for a later one.
//!
//! A named state is held from before the sandbox is made until after it was saved, so that no other run follows the same one. It is saved once every
//! process is dead, and only of a run that ended by itself or was closed: what a limit or an interruption cut short is not kept, and the old state stays.

use std::collections::BTreeMap;

use ringfence_evidence::{Event, RunEnd};
use ringfence_isolation::{GoOn, StateError, Trees};
use ringfence_policy::{Capabilities, Layer, LimitKey, Refusal, TenantName};
use ringfence_store::{JournalWriter, RunId, StateAbout, StateKind, StateLock, StateRow, States, StoreError, Viewer};

use crate::ending;
use crate::report::KeptState;
use crate::request::RunRequest;

/// Bytes that the tar of a state has for each file beside its content: headers, a long name, words laid down beside it.
const BYTES_PER_FILE: u64 = 8 << 10;

/// Why state could not be saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Its files could not be read or made.
    #[error(transparent)]
    State(#[from] StateError),
    /// It could not be kept, or is not as it was kept.
    #[error("{source}; hint: {}", source.hint())]
    Store {
        /// Why.
        #[from]
        source: StoreError,
    },
}

/// Why a run cannot begin with the state that it names.
pub(crate) enum NoState {
    Refused(Refusal),
    Failed(StoreError),
}

impl From<StoreError> for NoState {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::StateInUse { .. } => Self::Refused(ending::host_refusal(error.to_string(), error.hint())),
            StoreError::StatesFull { .. } => Self::Refused(full(&error)),
            other => Self::Failed(other),
        }
    }
}

/// The operator bounds what a tenant keeps.
pub(crate) fn full(error: &StoreError) -> Refusal {
    Refusal { rule: error.to_string(), layer: Layer::Ceiling, hint: error.hint() }
}

/// The state of one run.
#[derive(Debug)]
pub(crate) struct RunState {
    states: States,
    /// What it begins with.
    begins_with: Option<StateRow>,
    lock: Option<StateLock>,
}

impl RunState {
    /// Finds what a run begins with. A named state that is not there yet begins empty.
    pub(crate) fn of(states: States, request: &RunRequest, run: &RunId) -> Result<Self, NoState> {
        let tenant = request.tenant.as_ref().map(TenantName::as_str);
        let (begins_with, lock) = match (&request.state, &request.from) {
            (Some(name), _) => {
                let lock = states.lock(tenant, name.as_str(), &format!("run {run}"))?;
                states.room(tenant, Some(name.as_str()))?;
                (states.named(tenant, name.as_str())?, Some(lock))
            }
            (None, Some(id)) => {
                let found = states.get(id, &viewer(request.tenant.as_ref()))?;
                (Some(found.ok_or_else(|| NoState::Refused(no_state(id.as_str())))?), None)
            }
            (None, None) => (None, None),
        };
        begins_with.iter().try_for_each(|state| check_agent(state, request))?;
        Ok(Self { states, begins_with, lock })
    }

    /// Lays out what the run begins with. Nothing has run in its sandbox yet.
    pub(crate) fn restore(&self, trees: &Trees, go_on: &mut GoOn<'_>) -> Result<Option<&StateRow>, KeepError> {
        let Some(state) = &self.begins_with else { return Ok(None) };
        let mut content = self.states.open(state)?;
        trees.restore(&mut content, go_on)?;
        content.finish()?;
        Ok(Some(state))
    }

    /// Whether the run has a named state.
    pub(crate) fn is_named(&self) -> bool {
        self.lock.is_some()
    }

    /// Keeps the files of a run.
    pub(crate) fn save(&self, trees: &Trees, said: StateAbout, most_bytes: u64, go_on: &mut GoOn<'_>) -> Result<SavedState, KeepError> {
        save(&self.states, trees, said, most_bytes, go_on)
    }

    /// What a run says of a state that it leaves.
    pub(crate) fn about(&self, request: &RunRequest, run: &RunId, kind: StateKind, words: Words) -> StateAbout {
        StateAbout {
            kind,
            name: request.state.as_ref().filter(|_| kind == StateKind::Named).map(ToString::to_string),
            tenant: request.tenant.as_ref().map(ToString::to_string),
            agent: request.agent.to_string(),
            profile: request.profile.profile.name.to_string(),
            run: run.to_string(),
            parent: self.begins_with.as_ref().map(|state| state.id.clone()),
            metadata: words.metadata,
            about: words.about,
        }
    }
}

/// A state that was saved.
#[derive(Debug)]
pub(crate) struct SavedState {
    pub(crate) row: StateRow,
    /// Sockets, pipes and devices.
    pub(crate) left_out: u64,
    /// Files that changed while they were read.
    pub(crate) changed: u64,
}

/// Keeps files as a state: whole or not at all.
pub(crate) fn save(
    states: &States,
    trees: &Trees,
    said: StateAbout,
    most_bytes: u64,
    go_on: &mut GoOn<'_>,
) -> Result<SavedState, KeepError> {
    let room = states.room(said.tenant.as_deref(), said.name.as_deref())?;
    let mut draft = states.draft()?;
    let saved = match trees.save(&mut draft, most_bytes.min(room), go_on) {
        Err(StateError::TooLarge { .. }) if room < most_bytes => {
            return Err(states.no_room(said.tenant.as_deref(), said.name.as_deref())?.into());
        }
        saved => saved?,
    };
    Ok(SavedState { row: draft.put(said)?, left_out: saved.left_out, changed: saved.changed })
}

/// What whoever has a session says of its state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words {
    /// Words of the caller's own.
    pub(crate) metadata: BTreeMap<String, String>,
    /// What a server needs to go on with it.
    pub(crate) about: serde_json::Value,
}

/// The most bytes that the state of a run can have: what it may write, and what a tar says of each file.
pub(crate) fn most_bytes(allowed: &Capabilities) -> u64 {
    let limit = |key| allowed.limits.get(key).unwrap_or(u64::MAX);
    limit(LimitKey::Disk).saturating_add(limit(LimitKey::Files).saturating_mul(BYTES_PER_FILE)).saturating_add(1 << 20)
}

/// Why what a run wrote is not kept under its name, if it ended in a way that leaves work cut short.
pub(crate) fn why_not_kept(end: &RunEnd) -> Option<String> {
    match end {
        RunEnd::Exited { .. } | RunEnd::Signaled { .. } | RunEnd::Closed { .. } => None,
        RunEnd::Limit { limit } => Some(format!("the run met its {limit} limit")),
        RunEnd::Failed { step, .. } => Some(format!("the run failed: {step}")),
        RunEnd::Refused { .. } => Some("the run was refused".into()),
    }
}

/// Who looks for states. A run of the command line sees what is no tenant's, and what the first tenant has.
pub(crate) fn viewer(tenant: Option<&TenantName>) -> Viewer {
    let first = TenantName::first();
    let tenant = tenant.unwrap_or(&first);
    Viewer { tenant: tenant.to_string(), sees_the_command_line: tenant.is_first() }
}

pub(crate) fn restored(journal: &JournalWriter, state: &StateRow) -> Result<(), StoreError> {
    journal.append(Event::StateRestored {
        state: state.id.to_string(),
        name: state.said.name.clone(),
        sha256: state.sha256,
        bytes: state.bytes,
    })
}

pub(crate) fn saved(journal: &JournalWriter, saved: &SavedState) -> Result<(), StoreError> {
    let state = &saved.row;
    journal.append(Event::StateSaved {
        state: state.id.to_string(),
        kind: kind_word(state.said.kind).to_owned(),
        name: state.said.name.clone(),
        sha256: state.sha256,
        bytes: state.bytes,
        left_out: saved.left_out,
        changed: saved.changed,
    })
}

/// What a report says of a state.
pub(crate) fn report_of(state: &StateRow) -> KeptState {
    KeptState {
        id: state.id.to_string(),
        kind: kind_word(state.said.kind).to_owned(),
        bytes: state.bytes,
        sha256: format!("sha256:{}", state.sha256.hex()),
    }
}

fn kind_word(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Named => "named",
        StateKind::Snapshot => "snapshot",
        StateKind::Paused => "paused",
    }
}

fn no_state(id: &str) -> Refusal {
    ending::host_refusal(format!("there is no state `{id}` here"), "see `ringfence state ls`; it may have been removed".into())
}

/// What one agent wrote another one does not begin with: it would do what the first one's program prepared.
fn check_agent(state: &StateRow, request: &RunRequest) -> Result<(), NoState> {
    if state.said.agent == request.agent.as_str() {
        return Ok(());
    }
    let what = state.said.name.as_ref().unwrap_or(&state.said.run);
    Err(NoState::Refused(ending::host_refusal(
        format!("state `{what}` is agent `{}`'s, and agent `{}` cannot begin with it", state.said.agent, request.agent),
        "name another state, or run as that agent".into(),
    )))
}
