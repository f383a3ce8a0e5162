//! Promotions: from what was asked to the one end. Each change says from which states it may be made, so that whoever is late changes nothing.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::approval::{ApprovalRow, ApprovalState, Counts, NewApproval};
use super::{Authority, Step, states};
use crate::error::StoreError;

states!(
    /// Where a promotion stands.
    PromotionState {
        /// It is looked at, and its checks run.
        Checking = "checking",
        /// Persons are asked.
        Waiting = "waiting",
        /// Its approvals are used up; it is being applied.
        Applying = "applying",
        /// It took effect, once.
        Applied = "applied",
        /// Policy said no.
        Refused = "refused",
        /// A check did not pass, or the target did not take it.
        Failed = "failed",
        /// A person said no.
        Denied = "denied",
        /// Nobody decided, or nobody applied it, in time.
        Expired = "expired",
        /// The target is no longer what was tested.
        Stale = "stale",
    }
);

impl PromotionState {
    /// True if nothing more happens to it.
    pub fn is_end(self) -> bool {
        !matches!(self, Self::Checking | Self::Waiting | Self::Applying)
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct NewPromotion {
    /// Its name.
    pub id: String,
    /// Digest of the artifact.
    pub artifact: String,
    /// Name of the target.
    pub target: String,
    /// The place in it, where there is more than one.
    pub place: String,
    /// The promotion that it takes back.
    pub undoes: Option<String>,
    /// All of the request, as canonical JSON.
    pub request: String,
}

/// A promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromotionRow {
    /// Its name.
    pub id: String,
    /// Digest of the artifact.
    pub artifact: String,
    /// Name of the target.
    pub target: String,
    /// The promotion that it takes back.
    pub undoes: Option<String>,
    /// Where it stands.
    pub state: PromotionState,
    /// What was asked, as canonical JSON.
    pub request: String,
    /// What was prepared and tested, as canonical JSON.
    pub prepared: Option<String>,
    /// Why it ended as it did.
    pub cause: String,
    /// When it was asked for, milliseconds since 1970.
    pub made_at: i64,
    /// When it last changed.
    pub changed_at: i64,
    /// Whether it is over and has its receipt.
    pub is_sealed: bool,
}

impl PromotionRow {
    fn read(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.get("id"),
            artifact: row.get("artifact"),
            target: row.get("target"),
            undoes: row.get("undoes"),
            state: PromotionState::read(row.get("state"))?,
            request: row.get("request"),
            prepared: row.get("prepared"),
            cause: row.get("cause"),
            made_at: row.get("made_at"),
            changed_at: row.get("changed_at"),
            is_sealed: row.get("is_sealed"),
        })
    }
}

/// What asking for a promotion led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is new.
    New(PromotionRow),
    /// The same is under way, or has taken effect already.
    There(PromotionRow),
}

/// What an attempt to start a promotion led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// Its approvals are used up, by this very call.
    Now,
    /// Somebody has to decide yet.
    Waiting,
    /// It is elsewhere: under way by another call, or over.
    Not(PromotionState),
}

impl Authority {
    /// Asks for a promotion. What is under way is not begun twice, and what took effect is not asked for again unless `is_again`.
    pub fn begin(&mut self, new: &NewPromotion, is_again: bool) -> Result<Begun, StoreError> {
        self.step(async |step| {
            let same = "artifact = ? AND target = ? AND place = ? AND coalesce(undoes, '') = coalesce(?, '')";
            let query = format!("SELECT * FROM promotions WHERE {same} ORDER BY made_at DESC, id DESC LIMIT 1");
            let latest = sqlx::query(sqlx::AssertSqlSafe(query)).bind(&new.artifact).bind(&new.target).bind(&new.place).bind(&new.undoes);
            let latest = latest.fetch_optional(&mut *step.transaction).await?.as_ref().map(PromotionRow::read).transpose()?;
            if let Some(row) = latest {
                let has_held = row.state == PromotionState::Applied && !is_again && !step.is_undone(&row.id).await?;
                if !row.state.is_end() || has_held {
                    return Ok(Begun::There(row));
                }
            }
            sqlx::query("INSERT INTO promotions VALUES (?, ?, ?, ?, 'checking', ?, NULL, '', ?, ?, 0, ?)")
                .bind(&new.id)
                .bind(&new.artifact)
                .bind(&new.target)
                .bind(&new.undoes)
                .bind(&new.request)
                .bind(step.now)
                .bind(step.now)
                .bind(&new.place)
                .execute(&mut *step.transaction)
                .await?;
            step.promotion(&new.id).await?.map(Begun::New).ok_or(sqlx::Error::RowNotFound)
        })
    }

    /// A promotion by its name.
    pub fn promotion(&mut self, id: &str) -> Result<Option<PromotionRow>, StoreError> {
        self.step(async |step| step.promotion(id).await)
    }

    /// The newest promotions.
    pub fn promotions(&mut self, most: u32) -> Result<Vec<PromotionRow>, StoreError> {
        self.step(async |step| {
            let query = sqlx::query("SELECT * FROM promotions ORDER BY made_at DESC, id DESC LIMIT ?").bind(most);
            query.fetch_all(&mut *step.transaction).await?.iter().map(PromotionRow::read).collect()
        })
    }

    /// The promotions that somebody has to look after: started and not over, or over without a receipt.
    pub fn unsettled(&mut self) -> Result<Vec<String>, StoreError> {
        self.step(async |step| {
            let query = "SELECT id FROM promotions WHERE NOT is_sealed AND state NOT IN ('checking', 'waiting') ORDER BY id";
            Ok(sqlx::query(query).fetch_all(&mut *step.transaction).await?.iter().map(|row| row.get("id")).collect())
        })
    }

    /// Remembers that a promotion which is over has its receipt.
    pub fn seal(&mut self, id: &str) -> Result<(), StoreError> {
        self.step(async |step| {
            let query = sqlx::query("UPDATE promotions SET is_sealed = 1 WHERE id = ?").bind(id);
            query.execute(&mut *step.transaction).await.map(drop)
        })
    }

    /// The promotion that took this one back, if one did.
    pub fn undone_by(&mut self, id: &str) -> Result<Option<String>, StoreError> {
        self.step(async |step| step.undone_by(id).await)
    }

    /// What was prepared and tested stands, and persons are asked, in one. False if the promotion is no longer being checked.
    pub fn ask(&mut self, id: &str, prepared: &str, approvals: &[NewApproval]) -> Result<bool, StoreError> {
        self.step(async |step| {
            let query =
                sqlx::query("UPDATE promotions SET state = 'waiting', prepared = ?, changed_at = ? WHERE id = ? AND state = 'checking'");
            let done = query.bind(prepared).bind(step.now).bind(id).execute(&mut *step.transaction).await?.rows_affected() == 1;
            if done {
                for approval in approvals {
                    step.insert_approval(approval).await?;
                }
            }
            Ok(done)
        })
    }

    /// Uses up every approval of a waiting promotion and marks it as started, in one. `counts` tells whose decision counts now.
    pub fn start(&mut self, id: &str, counts: &Counts<'_>) -> Result<Started, StoreError> {
        self.step(async |step| {
            let Some(row) = step.promotion(id).await? else { return Err(sqlx::Error::RowNotFound) };
            if row.state != PromotionState::Waiting {
                return Ok(Started::Not(row.state));
            }
            let approvals = step.approvals_of(id).await?;
            let is_ready = |approval: &ApprovalRow| approval.state == ApprovalState::Approved && approval.has_quorum(counts);
            if approvals.is_empty() || !approvals.iter().all(is_ready) {
                return Ok(Started::Waiting);
            }
            for approval in &approvals {
                step.settle_approval(&approval.id, ApprovalState::Consumed, &format!("used by promotion {id}")).await?;
            }
            step.move_promotion(id, &[PromotionState::Waiting], PromotionState::Applying, "").await?;
            Ok(Started::Now)
        })
    }

    /// Ends a promotion that is in one of `from`; what was asked for it is asked no longer. False if it is elsewhere.
    pub fn end(&mut self, id: &str, from: &[PromotionState], to: PromotionState, cause: &str) -> Result<bool, StoreError> {
        self.step(async |step| step.end_promotion(id, from, to, cause).await)
    }
}

impl Step<'_> {
    async fn promotion(&mut self, id: &str) -> Result<Option<PromotionRow>, sqlx::Error> {
        let query = sqlx::query("SELECT * FROM promotions WHERE id = ?").bind(id);
        query.fetch_optional(&mut *self.transaction).await?.as_ref().map(PromotionRow::read).transpose()
    }

    async fn undone_by(&mut self, id: &str) -> Result<Option<String>, sqlx::Error> {
        let query = sqlx::query("SELECT id FROM promotions WHERE undoes = ? AND state = 'applied'").bind(id);
        Ok(query.fetch_optional(&mut *self.transaction).await?.map(|row| row.get("id")))
    }

    async fn is_undone(&mut self, id: &str) -> Result<bool, sqlx::Error> {
        self.undone_by(id).await.map(|by| by.is_some())
    }

    async fn move_promotion(&mut self, id: &str, from: &[PromotionState], to: PromotionState, cause: &str) -> Result<bool, sqlx::Error> {
        let Some(row) = self.promotion(id).await? else { return Ok(false) };
        if !from.contains(&row.state) {
            return Ok(false);
        }
        let query = sqlx::query("UPDATE promotions SET state = ?, cause = ?, changed_at = ? WHERE id = ?");
        query.bind(to.word()).bind(cause).bind(self.now).bind(id).execute(&mut *self.transaction).await?;
        Ok(true)
    }

    pub(super) async fn end_promotion(
        &mut self,
        id: &str,
        from: &[PromotionState],
        to: PromotionState,
        cause: &str,
    ) -> Result<bool, sqlx::Error> {
        if !self.move_promotion(id, from, to, cause).await? {
            return Ok(false);
        }
        for approval in self.approvals_of(id).await? {
            if matches!(approval.state, ApprovalState::Pending | ApprovalState::Approved) {
                self.settle_approval(&approval.id, ApprovalState::Stale, &format!("promotion {id} is {to}")).await?;
            }
        }
        Ok(true)
    }
}
