//! Keys: `rf_` for our own API, `e2b_` for clients of E2B, and 64 digits of 256 bits from the kernel.

use std::fmt;
use std::str::FromStr;

use ringfence_evidence::Digest;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Clients, millis};
use crate::database::broken;
use crate::error::StoreError;
use crate::run_id::RunId;

/// How often the last use of a key is written down, milliseconds.
const USE_NOTED_EVERY_MS: i64 = 60_000;

/// Whose clients a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// Those of our own API: `rf_…`.
    Api,
    /// Those of E2B: `e2b_…`.
    E2b,
}

impl KeyKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::E2b => "e2b",
        }
    }

    /// What a key of this kind begins with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Api => "rf_",
            Self::E2b => "e2b_",
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Api, Self::E2b].into_iter().find(|kind| kind.word() == text).ok_or_else(|| "a key is of the kind `api` or `e2b`".to_owned())
    }
}

/// A key that was just made, which is shown now and never again.
#[derive(Clone)]
pub struct NewKey {
    /// Its name.
    pub id: String,
    secret: String,
}

impl NewKey {
    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.secret
    }
}

/// The key is left out.
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct KeyRow {
    /// Its name.
    pub id: String,
    /// The tenant.
    pub tenant: String,
    /// `api` or `e2b`.
    pub kind: String,
    /// When it was made, milliseconds since 1970.
    pub made_at: i64,
    /// When it was last used, to the minute.
    pub used_at: Option<i64>,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
}

/// Whoever a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name of the key.
    pub key: String,
    /// The tenant.
    pub tenant: String,
    /// What the key is for.
    pub kind: KeyKind,
    /// The agents that the tenant may use, the default first.
    pub agents: Vec<String>,
}

impl Clients {
    /// Makes a key. `None` if there is no such tenant.
    pub fn add_key(&mut self, tenant: &str, kind: KeyKind) -> Result<Option<NewKey>, StoreError> {
        let key = NewKey { id: self.new_id()?, secret: format!("{}{}", kind.prefix(), self.random_digits()?) };
        let is_made = self.step(async |transaction| {
            let query = sqlx::query("INSERT INTO keys SELECT ?, name, ?, ?, ?, NULL, NULL FROM tenants WHERE name = ?");
            let query = query.bind(&key.id).bind(kind.word()).bind(hash(&key.secret)).bind(millis()).bind(tenant);
            Ok(query.execute(&mut **transaction).await?.rows_affected() == 1)
        })?;
        Ok(is_made.then_some(key))
    }

    /// Every key, the newest first.
    pub fn keys(&mut self) -> Result<Vec<KeyRow>, StoreError> {
        self.step(async |transaction| {
            let rows = sqlx::query("SELECT * FROM keys ORDER BY id DESC").fetch_all(&mut **transaction).await?;
            Ok(rows.iter().map(key_row).collect())
        })
    }

    /// Lets a key open nothing from now on. False if there is none that does.
    pub fn revoke_key(&mut self, id: &str) -> Result<bool, StoreError> {
        self.step(async |transaction| {
            let query = sqlx::query("UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL").bind(millis()).bind(id);
            Ok(query.execute(&mut **transaction).await?.rows_affected() == 1)
        })
    }

    /// Whose key this is; nobody's if it was never made, or was revoked.
    pub fn caller(&mut self, secret: &str) -> Result<Option<Caller>, StoreError> {
        let (now, hash) = (millis(), hash(secret));
        let found = self.all(
            sqlx::query(
                "SELECT id, keys.tenant, kind, used_at, agent FROM keys LEFT JOIN tenant_agents ON tenant_agents.tenant = keys.tenant \
                 WHERE sha256 = ? AND revoked_at IS NULL ORDER BY position",
            )
            .bind(&hash),
        )?;
        let Some(row) = found.first() else { return Ok(None) };
        let used: Option<i64> = row.get("used_at");
        if used.is_none_or(|used| (now - used).abs() >= USE_NOTED_EVERY_MS) {
            self.all(sqlx::query("UPDATE keys SET used_at = ? WHERE sha256 = ?").bind(now).bind(&hash))?;
        }
        let kind = row.get::<String, _>("kind").parse().map_err(|cause: String| broken(&self.database.path, &cause))?;
        let agents = found.iter().filter_map(|row| row.get("agent")).collect();
        Ok(Some(Caller { key: row.get("id"), tenant: row.get("tenant"), kind, agents }))
    }

    fn new_id(&self) -> Result<String, StoreError> {
        RunId::new().map(|id| id.to_string()).map_err(|source| self.no_random(source))
    }

    fn random_digits(&self) -> Result<String, StoreError> {
        let mut random = [0u8; 32];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|errno| self.no_random(errno.into()))?;
        Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn no_random(&self, source: std::io::Error) -> StoreError {
        StoreError::Io { act: "draw a key for", path: self.database.path.clone(), source }
    }
}

fn hash(secret: &str) -> String {
    Digest::of(secret.as_bytes()).to_string()
}

fn key_row(row: &SqliteRow) -> KeyRow {
    KeyRow {
        id: row.get("id"),
        tenant: row.get("tenant"),
        kind: row.get("kind"),
        made_at: row.get("made_at"),
        used_at: row.get("used_at"),
        revoked_at: row.get("revoked_at"),
    }
}
