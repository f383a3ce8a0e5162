//! How much a tenant keeps, so that none fills the disk for all others. What no tenant has is the operator's own, and is not counted.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{StateRow, States, names_in, read_state};
use crate::error::{At, StoreError};

/// The most that each tenant may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateQuota {
    /// How many states.
    pub count: u64,
    /// Bytes of all of them together.
    pub bytes: u64,
}

/// What a tenant keeps.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    count: u64,
    bytes: u64,
}

impl States {
    /// The same, of which a tenant may keep so many.
    #[must_use]
    pub fn bounded(self, quota: StateQuota) -> Self {
        Self { quota: Some(quota), ..self }
    }

    /// Bytes that a tenant may keep in one more state, or in the next one of a name, which replaces the last.
    ///
    /// # Errors
    /// [`StoreError::StatesFull`] if there is room for none.
    pub fn room(&self, tenant: Option<&str>, name: Option<&str>) -> Result<u64, StoreError> {
        let (Some(quota), Some(tenant)) = (self.quota, tenant) else { return Ok(u64::MAX) };
        let kept = self.kept(tenant, name)?;
        match kept.count < quota.count && kept.bytes < quota.bytes {
            true => Ok(quota.bytes - kept.bytes),
            false => Err(full(tenant, kept, quota)),
        }
    }

    /// Why a state did not fit into the room of its tenant.
    pub fn no_room(&self, tenant: Option<&str>, name: Option<&str>) -> Result<StoreError, StoreError> {
        let tenant = tenant.unwrap_or_default();
        let quota = self.quota.unwrap_or(StateQuota { count: u64::MAX, bytes: u64::MAX });
        Ok(full(tenant, self.kept(tenant, name)?, quota))
    }

    /// Nobody else puts a state there while this is held; refused where it would be too much.
    pub(super) fn placing(&self, tenant: Option<&str>, name: Option<&str>, bytes: u64) -> Result<Option<File>, StoreError> {
        if self.quota.is_none() || tenant.is_none() {
            return Ok(None);
        }
        let path = self.folder.join("placing.lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).at("open", &path)?;
        while let Err(errno) = flock(&file, FlockOperation::LockExclusive) {
            if errno != Errno::INTR {
                return Err(std::io::Error::from(errno)).at("lock", &path);
            }
        }
        match self.room(tenant, name)? >= bytes {
            true => Ok(Some(file)),
            false => Err(self.no_room(tenant, name)?),
        }
    }

    /// What a tenant keeps beside the state of that name. A document that does not read is nobody's: it must not keep others from their own.
    fn kept(&self, tenant: &str, name: Option<&str>) -> Result<Kept, StoreError> {
        let mut kept = Kept::default();
        for folder in self.folders_of(tenant)? {
            let states = names_in(&folder)?.into_iter().filter_map(|id| read_state(&folder.join(id)).ok().flatten());
            let own: Vec<StateRow> = states.filter(|state| state.said.tenant.as_deref() == Some(tenant)).collect();
            let others = own.iter().filter(|state| name.is_none() || state.said.name.as_deref() != name);
            // Of those of one name one stays.
            let counted: BTreeMap<_, _> =
                others.map(|state| (state.said.name.as_ref().map_or(state.id.as_str(), String::as_str), state.bytes)).collect();
            kept.count += counted.len() as u64;
            kept.bytes = counted.values().fold(kept.bytes, |sum, bytes| sum.saturating_add(*bytes));
        }
        Ok(kept)
    }

    /// Where states of a tenant can be.
    fn folders_of(&self, tenant: &str) -> Result<Vec<PathBuf>, StoreError> {
        let named = self.folder.join("named");
        let keys = names_in(&named)?.into_iter().filter(|key| key.split_once(':').is_some_and(|(of, _)| of == tenant));
        Ok(keys.map(|key| named.join(key)).chain([self.folder.join("other")]).collect())
    }
}

fn full(tenant: &str, kept: Kept, quota: StateQuota) -> StoreError {
    StoreError::StatesFull {
        tenant: tenant.to_owned(),
        count: kept.count,
        bytes: kept.bytes,
        most_count: quota.count,
        most_bytes: quota.bytes,
    }
}
