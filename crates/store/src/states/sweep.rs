//! Taking away what processes that are gone have left, and, when somebody asks for it, what nobody has used for long.

use std::fs;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{StateKind, StateRow, States, names_in, read_state};
use crate::error::{At, StoreError};
use crate::home::{is_gone, unless_gone};
use crate::index::Viewer;

impl States {
    /// Removes drafts of processes that are gone, states that have a successor, and locks that lock nothing.
    pub(crate) fn sweep(&self) -> Result<(), StoreError> {
        for name in names_in(&self.folder)? {
            let pid = name.strip_prefix("draft-").and_then(|rest| rest.split('-').next()?.parse::<i32>().ok());
            if pid.is_some_and(is_gone) {
                let path = self.folder.join(name);
                unless_gone(fs::remove_dir_all(&path)).at("remove", &path)?;
            }
        }
        for key in names_in(&self.folder.join("named"))? {
            self.sweep_name(&key)?;
        }
        names_in(&self.folder.join("locks"))?.iter().try_for_each(|key| self.remove_lock(key))
    }

    /// Whoever put a successor in its place may have been ended before the old one was removed. A document that does not read is left for a person.
    fn sweep_name(&self, key: &str) -> Result<(), StoreError> {
        let Some(_lock) = self.lock_unless_used(key)? else { return Ok(()) };
        let folder = self.folder.join("named").join(key);
        let states: Vec<StateRow> = names_in(&folder)?.iter().filter_map(|name| read_state(&folder.join(name)).ok().flatten()).collect();
        let newest = states.iter().map(|state| state.generation).max();
        let is_old = |state: &&StateRow| Some(state.generation) < newest;
        states.iter().filter(is_old).try_for_each(|state| self.take_away(&folder.join(state.id.as_str())))?;
        // A folder that is not empty stays.
        fs::remove_dir(&folder).unwrap_or_default();
        Ok(())
    }

    /// Removes what `viewer` may see and no run has begun with for at least this long; answers with what was removed. A name that is in use is left.
    pub fn remove_unused(&self, viewer: &Viewer, older_than: Duration) -> Result<Vec<StateRow>, StoreError> {
        let now = OffsetDateTime::now_utc();
        let is_old = |state: &StateRow| OffsetDateTime::parse(&state.used_at, &Rfc3339).is_ok_and(|used| now - used >= older_than);
        let mut removed = Vec::new();
        for state in self.list(viewer)?.into_iter().filter(is_old) {
            if self.remove_unless_used(&state)? {
                removed.push(state);
            }
        }
        Ok(removed)
    }

    /// Removes a state; false if it is a named one that somebody uses.
    pub fn remove_unless_used(&self, state: &StateRow) -> Result<bool, StoreError> {
        let lock = match (state.said.kind, &state.said.name) {
            (StateKind::Named, Some(name)) => match self.lock(state.said.tenant.as_deref(), name, "a removal") {
                Err(StoreError::StateInUse { .. }) => return Ok(false),
                lock => Some(lock?),
            },
            (StateKind::Named | StateKind::Snapshot | StateKind::Paused, _) => None,
        };
        self.remove(state)?;
        drop(lock);
        Ok(true)
    }
}
