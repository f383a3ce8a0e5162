//! States: files of a run that outlive it, each a folder with a tar and a document that says what it is.
//!
//! A state is written beside its place, flushed, and put there by one rename: whoever ends this process at any moment leaves it whole or not there.
//! A named state is never written over: the next one of its name has a number that is one higher, and the old one goes once the new one is durable.
//! So that no two runs follow one and the same state, whoever uses a name holds its lock meanwhile.
//!
//! ```text
//! states/other/ID/             a snapshot, or a session that was paused
//! states/named/KEY/ID/         KEY is NAME, or TENANT:NAME
//! states/locks/KEY             who uses it
//! states/placing.lock          held while a tenant's are counted and one more is put there
//! states/draft-PID-NUMBER/     on its way in, or out
//! ```

mod content;
mod draft;
mod id;
mod lock;
mod quota;
mod sweep;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_evidence::Digest;
use serde::{Deserialize, Serialize};

pub use content::StateContent;
pub use draft::StateDraft;
pub use id::{StateId, StateIdError};
pub use lock::StateLock;
pub use quota::StateQuota;

use crate::error::{At, StoreError};
use crate::home::{Home, place_whole};
use crate::index::Viewer;
use crate::registry::{damaged, is_plain, read};

/// The two files of a state, and the third one, whose loss does no harm.
const CONTENT: &str = "files.tar";
const DOCUMENT: &str = "state.json";
const USED: &str = "used";

/// What a state is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// The next run that names it begins with it.
    Named,
    /// A session as it was at some moment; any number of sessions can begin with it.
    Snapshot,
    /// A session that was paused and can go on.
    Paused,
}

/// What is said of a state by whoever saves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateAbout {
    /// What it is kept for.
    pub kind: StateKind,
    /// Its name, which a named one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tenant of a server whose it is; the command line has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The agent whose run made it.
    pub agent: String,
    /// The profile of that run.
    pub profile: String,
    /// That run.
    pub run: String,
    /// The state with which that run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<StateId>,
    /// Words of the caller's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What a server needs to go on with a session; nothing here looks into it.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub about: serde_json::Value,
}

/// A kept state, as its document says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    /// Its id.
    pub id: StateId,
    /// How many states of this name came before it.
    #[serde(default)]
    pub generation: u64,
    /// When it was saved, RFC 3339 in UTC.
    pub created_at: String,
    /// When a run last began with it, RFC 3339 in UTC; when it was saved, if none has.
    #[serde(default)]
    pub used_at: String,
    /// Bytes of its tar.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
    /// What was said of it.
    #[serde(flatten)]
    pub said: StateAbout,
}

/// The states of a home.
#[derive(Debug, Clone)]
pub struct States {
    folder: PathBuf,
    quota: Option<StateQuota>,
}

impl States {
    /// Those of a home.
    pub fn of(home: &Home) -> Self {
        Self { folder: home.states(), quota: None }
    }

    /// Begins a new one.
    pub fn draft(&self) -> Result<StateDraft, StoreError> {
        StateDraft::begin(self)
    }

    /// The state of that name, if there is one. `None` as a tenant is the command line.
    pub fn named(&self, tenant: Option<&str>, name: &str) -> Result<Option<StateRow>, StoreError> {
        let states = self.all_in(&self.folder_of_name(tenant, name)?)?;
        Ok(states.into_iter().max_by_key(|state| state.generation))
    }

    /// A state by its id, if it is there and `viewer` may see it.
    pub fn get(&self, id: &StateId, viewer: &Viewer) -> Result<Option<StateRow>, StoreError> {
        let mut folders = vec![self.folder.join("other")];
        folders.extend(names_in(&self.folder.join("named"))?.into_iter().map(|key| self.folder.join("named").join(key)));
        let place = folders.into_iter().map(|folder| folder.join(id.as_str())).find(|place| place.exists());
        let found = place.map_or(Ok(None), |place| read_state(&place))?;
        Ok(found.filter(|state| viewer.sees(state.said.tenant.as_deref())))
    }

    /// Every state that `viewer` may see, the oldest first.
    pub fn list(&self, viewer: &Viewer) -> Result<Vec<StateRow>, StoreError> {
        Ok(self.all()?.into_iter().filter(|state| viewer.sees(state.said.tenant.as_deref())).collect())
    }

    /// Opens the tar of a state, and writes down that it is used. What is read is held against its digest at the end.
    pub fn open(&self, state: &StateRow) -> Result<StateContent, StoreError> {
        let folder = self.place(state)?;
        let content = StateContent::open(&folder.join(CONTENT), state)?;
        place_whole(&folder.join(USED), crate::journal::now().as_bytes(), 0o600)?;
        Ok(content)
    }

    /// Removes a state; one that is not there is no error. Whoever has it open reads on.
    pub fn remove(&self, state: &StateRow) -> Result<(), StoreError> {
        self.take_away(&self.place(state)?)
    }

    /// Every state, the oldest first; of those with a name the newest.
    fn all(&self) -> Result<Vec<StateRow>, StoreError> {
        let mut states = self.all_in(&self.folder.join("other"))?;
        for key in names_in(&self.folder.join("named"))? {
            let generations = self.all_in(&self.folder.join("named").join(key))?;
            states.extend(generations.into_iter().max_by_key(|state| state.generation));
        }
        states.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(states)
    }

    fn all_in(&self, folder: &Path) -> Result<Vec<StateRow>, StoreError> {
        let read_one = |name: String| read_state(&folder.join(name)).transpose();
        names_in(folder)?.into_iter().filter_map(read_one).collect()
    }

    /// Where a state is kept.
    fn place(&self, state: &StateRow) -> Result<PathBuf, StoreError> {
        Ok(self.folder_of(&state.said)?.join(state.id.as_str()))
    }

    fn folder_of(&self, said: &StateAbout) -> Result<PathBuf, StoreError> {
        match (&said.kind, &said.name) {
            (StateKind::Named, Some(name)) => self.folder_of_name(said.tenant.as_deref(), name),
            (StateKind::Named, None) => Err(damaged(&self.folder, "a named state has no name")),
            (StateKind::Snapshot | StateKind::Paused, _) => Ok(self.folder.join("other")),
        }
    }

    fn folder_of_name(&self, tenant: Option<&str>, name: &str) -> Result<PathBuf, StoreError> {
        Ok(self.folder.join("named").join(self.key(tenant, name)?))
    }

    /// What stands for a name in file names. Neither part holds a `:`, so no two names have the same.
    fn key(&self, tenant: Option<&str>, name: &str) -> Result<String, StoreError> {
        match is_plain(name) && tenant.is_none_or(is_plain) {
            true => Ok(tenant.map_or_else(|| name.to_owned(), |tenant| format!("{tenant}:{name}"))),
            false => Err(damaged(&self.folder, "a state cannot have that name")),
        }
    }

    /// Out of its place by one rename, and then removed.
    fn take_away(&self, place: &Path) -> Result<(), StoreError> {
        let away = draft::new_path(&self.folder);
        match fs::rename(place, &away) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.at("remove", place)?,
        }
        fs::remove_dir_all(&away).at("remove", &away)
    }
}

/// A state by its folder; none if it has gone meanwhile.
fn read_state(folder: &Path) -> Result<Option<StateRow>, StoreError> {
    let path = folder.join(DOCUMENT);
    let Some(text) = read(&path)? else {
        return match folder.exists() {
            true => Err(damaged(&path, "it is not there")),
            false => Ok(None),
        };
    };
    let mut state: StateRow = serde_json::from_str(&text).map_err(|error| damaged(&path, &error.to_string()))?;
    if folder.file_name().and_then(|name| name.to_str()) != Some(state.id.as_str()) {
        return Err(damaged(&path, &format!("it is the document of `{}`", state.id)));
    }
    state.used_at = read(&folder.join(USED)).ok().flatten().filter(|used| *used > state.created_at).unwrap_or(state.created_at.clone());
    Ok(Some(state))
}

/// What is in a folder, in order; nothing if it is not there.
fn names_in(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at("read", folder)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.at("read", folder)?.file_name();
        names.push(name.into_string().map_err(|name| damaged(&folder.join(name), "a state cannot have that name"))?);
    }
    names.sort();
    Ok(names)
}
