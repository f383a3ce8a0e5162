//! Standing grants: a person's yes given ahead for what is alike, with a life and a number of uses.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Authority, Step};
use crate::error::StoreError;

/// A standing grant to be recorded.
#[derive(Debug, Clone)]
pub struct NewStanding {
    /// Its name.
    pub id: String,
    /// Who gives it.
    pub person: String,
    /// Id of the key that signed it.
    pub key: String,
    /// What it covers, as canonical JSON.
    pub covers: String,
    /// The signed statement.
    pub envelope: String,
    /// How often it can be used.
    pub uses: u32,
    /// How long, milliseconds.
    pub life: i64,
}

/// A standing grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingRow {
    /// Its name.
    pub id: String,
    /// Who gave it.
    pub person: String,
    /// Id of the key that signed it.
    pub key: String,
    /// What it covers, as canonical JSON.
    pub covers: String,
    /// The signed statement.
    pub envelope: String,
    /// How often it can still be used.
    pub uses: u32,
    /// When it was given, milliseconds since 1970.
    pub made_at: i64,
    /// Until when.
    pub until: i64,
    /// When it was withdrawn.
    pub ended_at: Option<i64>,
    /// Whether it can be used now.
    pub is_usable: bool,
    /// By how many decisions it was used.
    pub used: u32,
}

impl StandingRow {
    fn read(row: &SqliteRow, now: i64) -> Self {
        let (uses, until, ended_at): (u32, i64, Option<i64>) = (row.get("uses"), row.get("until"), row.get("ended_at"));
        Self {
            id: row.get("id"),
            person: row.get("person"),
            key: row.get("key"),
            covers: row.get("covers"),
            envelope: row.get("envelope"),
            uses,
            made_at: row.get("made_at"),
            until,
            ended_at,
            is_usable: uses > 0 && until > now && ended_at.is_none(),
            used: row.get("used"),
        }
    }
}

impl Authority {
    /// Records a standing grant.
    pub fn give_standing(&mut self, new: &NewStanding) -> Result<(), StoreError> {
        self.step(async |step| {
            sqlx::query("INSERT INTO standing VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)")
                .bind(&new.id)
                .bind(&new.person)
                .bind(&new.key)
                .bind(&new.covers)
                .bind(&new.envelope)
                .bind(new.uses)
                .bind(step.now)
                .bind(step.now.saturating_add(new.life))
                .execute(&mut *step.transaction)
                .await
                .map(drop)
        })
    }

    /// Every standing grant, the newest first.
    pub fn standing(&mut self) -> Result<Vec<StandingRow>, StoreError> {
        self.step(async |step| {
            let rows = sqlx::query(
                "SELECT *, (SELECT count(*) FROM decisions WHERE decisions.standing = standing.id) AS used FROM standing ORDER BY made_at DESC, id DESC",
            );
            let rows = rows.fetch_all(&mut *step.transaction).await?;
            Ok(rows.iter().map(|row| StandingRow::read(row, step.now)).collect())
        })
    }

    /// Withdraws a standing grant. False if there is none that could still be used.
    pub fn withdraw_standing(&mut self, id: &str) -> Result<bool, StoreError> {
        self.step(async |step| {
            let query = sqlx::query("UPDATE standing SET ended_at = ? WHERE id = ? AND ended_at IS NULL");
            Ok(query.bind(step.now).bind(id).execute(&mut *step.transaction).await?.rows_affected() == 1)
        })
    }
}

impl Step<'_> {
    /// Takes one of its uses. False if it is used up, over or withdrawn.
    pub(super) async fn use_standing(&mut self, id: &str) -> Result<bool, sqlx::Error> {
        let query = sqlx::query("UPDATE standing SET uses = uses - 1 WHERE id = ? AND uses > 0 AND until > ? AND ended_at IS NULL");
        Ok(query.bind(id).bind(self.now).execute(&mut *self.transaction).await?.rows_affected() == 1)
    }
}
