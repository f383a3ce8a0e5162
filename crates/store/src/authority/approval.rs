//! Approvals: asked, decided by persons, used once. Deny, expiry and stale are ends of their own.

use std::collections::BTreeSet;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::promotion::PromotionState;
use super::{Authority, Step, states};
use crate::error::StoreError;

states!(
    /// Where an approval stands.
    ApprovalState {
        /// Persons are asked.
        Pending = "pending",
        /// Enough have agreed; it has not been used.
        Approved = "approved",
        /// It was used, once.
        Consumed = "consumed",
        /// A person said no.
        Denied = "denied",
        /// Nobody decided, or nobody used it, in time.
        Expired = "expired",
        /// What it was for is no longer so.
        Stale = "stale",
    }
);
states!(
    /// What a person says.
    Verdict {
        /// Yes.
        Approve = "approve",
        /// No, also after a yes, until it is used.
        Deny = "deny",
    }
);

/// Something to be approved.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// Its name.
    pub id: String,
    /// The promotion or agent that it is for.
    pub subject: String,
    /// All of the request, as canonical JSON.
    pub request: String,
    /// Its digest.
    pub digest: String,
    /// How many different persons must agree.
    pub quorum: u32,
    /// Until when it can be decided, milliseconds since 1970.
    pub decide_by: i64,
    /// How long it can be used after that, milliseconds.
    pub execute_for: i64,
}

/// An approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// Its name.
    pub id: String,
    /// The promotion or agent that it is for.
    pub subject: String,
    /// Where it stands.
    pub state: ApprovalState,
    /// What is approved, as canonical JSON.
    pub request: String,
    /// Its digest.
    pub digest: String,
    /// How many different persons must agree.
    pub quorum: u32,
    /// When it was asked, milliseconds since 1970.
    pub asked_at: i64,
    /// Until when it can be decided.
    pub decide_by: i64,
    /// Until when it can be used, once enough have agreed.
    pub execute_by: Option<i64>,
    /// When it ended.
    pub settled_at: Option<i64>,
    /// Why it ended as it did.
    pub cause: String,
    /// What persons said, in order.
    pub decisions: Vec<DecisionRow>,
}

/// What one person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRow {
    /// Who.
    pub person: String,
    /// Id of the key that signed it.
    pub key: String,
    /// What.
    pub verdict: Verdict,
    /// The signed statement.
    pub envelope: String,
    /// The standing grant by which it was made.
    pub standing: Option<String>,
    /// When, milliseconds since 1970.
    pub made_at: i64,
}

/// A decision to be recorded.
#[derive(Debug, Clone)]
pub struct NewDecision {
    /// Who.
    pub person: String,
    /// Id of the key that signed it.
    pub key: String,
    /// What.
    pub verdict: Verdict,
    /// Digest of the request that the person saw.
    pub digest: String,
    /// The signed statement.
    pub envelope: String,
    /// The standing grant by which it is made; one of its uses is used up.
    pub standing: Option<String>,
}

/// Whether a decision counts: its person may decide this, now.
pub type Counts<'a> = dyn Fn(&ApprovalRow, &DecisionRow) -> bool + 'a;

/// What a decision led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It is recorded, and the approval now stands so.
    Recorded(ApprovalRow),
    /// It came too late: the approval is over.
    Over(ApprovalRow),
    /// It was made about another request than the one on record.
    Other(ApprovalRow),
    /// The same person has said the same before.
    Before(ApprovalRow),
    /// The standing grant is used up, over or withdrawn.
    NoStanding(ApprovalRow),
}

impl ApprovalRow {
    fn read(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.get("id"),
            subject: row.get("subject"),
            state: ApprovalState::read(row.get("state"))?,
            request: row.get("request"),
            digest: row.get("digest"),
            quorum: row.get("quorum"),
            asked_at: row.get("asked_at"),
            decide_by: row.get("decide_by"),
            execute_by: row.get("execute_by"),
            settled_at: row.get("settled_at"),
            cause: row.get("cause"),
            decisions: Vec::new(),
        })
    }

    /// The different persons whose yes counts.
    pub fn agreed<'a>(&'a self, counts: &Counts<'_>) -> BTreeSet<&'a str> {
        let yes = self.decisions.iter().filter(|decision| decision.verdict == Verdict::Approve && counts(self, decision));
        yes.map(|decision| decision.person.as_str()).collect()
    }

    /// True if enough different persons agree, with different keys.
    pub fn has_quorum(&self, counts: &Counts<'_>) -> bool {
        let yes = self.decisions.iter().filter(|decision| decision.verdict == Verdict::Approve && counts(self, decision));
        let (persons, keys): (BTreeSet<&str>, BTreeSet<&str>) = yes.map(|made| (made.person.as_str(), made.key.as_str())).unzip();
        persons.len().min(keys.len()) >= usize::try_from(self.quorum).unwrap_or(usize::MAX).max(1)
    }

    /// True if a yes may still come: nobody has agreed to the end, or not enough of those who did still count.
    fn is_undecided(&self, counts: &Counts<'_>, now: i64) -> bool {
        match self.state {
            ApprovalState::Pending => true,
            ApprovalState::Approved => self.decide_by > now && !self.has_quorum(counts),
            ApprovalState::Consumed | ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Stale => false,
        }
    }
}

impl Authority {
    /// Asks for an approval that belongs to no promotion. What was asked for the same subject before is asked no longer.
    pub fn ask_alone(&mut self, new: &NewApproval) -> Result<(), StoreError> {
        self.step(async |step| {
            for former in step.approvals_of(&new.subject).await? {
                if matches!(former.state, ApprovalState::Pending | ApprovalState::Approved) {
                    step.settle_approval(&former.id, ApprovalState::Stale, &format!("asked anew as {}", new.id)).await?;
                }
            }
            step.insert_approval(new).await
        })
    }

    /// An approval by its name.
    pub fn approval(&mut self, id: &str) -> Result<Option<ApprovalRow>, StoreError> {
        self.step(async |step| step.approval(id).await)
    }

    /// The approvals of a promotion or agent, the oldest first.
    pub fn approvals_of(&mut self, subject: &str) -> Result<Vec<ApprovalRow>, StoreError> {
        self.step(async |step| step.approvals_of(subject).await)
    }

    /// The newest approvals; only those that can still be decided or used if `is_open`.
    pub fn approvals(&mut self, is_open: bool, most: u32) -> Result<Vec<ApprovalRow>, StoreError> {
        self.step(async |step| {
            let query =
                "SELECT id FROM approvals WHERE NOT ? OR state IN ('pending', 'approved') ORDER BY asked_at DESC, rowid DESC LIMIT ?";
            let ids = sqlx::query(query).bind(is_open).bind(most).fetch_all(&mut *step.transaction).await?;
            let mut rows = Vec::new();
            for id in ids {
                rows.extend(step.approval(id.get("id")).await?);
            }
            Ok(rows)
        })
    }

    /// Records what a person says. Enough who agree approve it; one who does not denies it, until it is used.
    pub fn decide(&mut self, id: &str, decision: &NewDecision, counts: &Counts<'_>) -> Result<Decided, StoreError> {
        self.step(async |step| {
            let Some(row) = step.approval(id).await? else { return Err(sqlx::Error::RowNotFound) };
            if row.digest != decision.digest {
                return Ok(Decided::Other(row));
            }
            let is_open = match decision.verdict {
                Verdict::Approve => row.is_undecided(counts, step.now),
                Verdict::Deny => matches!(row.state, ApprovalState::Pending | ApprovalState::Approved),
            };
            // One that does not count, since its person has no such right or never signed it, is in nobody's way.
            let is_same = |made: &&DecisionRow| made.person == decision.person && made.verdict == decision.verdict;
            let said = row.decisions.iter().filter(is_same).any(|made| counts(&row, made));
            match (is_open, said) {
                (false, _) => return Ok(Decided::Over(row)),
                (true, true) => return Ok(Decided::Before(row)),
                (true, false) => {}
            }
            if let Some(standing) = &decision.standing
                && !step.use_standing(standing).await?
            {
                return Ok(Decided::NoStanding(row));
            }
            step.insert_decision(id, decision).await?;
            step.draw(id, decision, counts).await.map(Decided::Recorded)
        })
    }

    /// Uses an approval that belongs to no promotion. True for the one call that used it.
    pub fn consume(&mut self, id: &str, counts: &Counts<'_>) -> Result<bool, StoreError> {
        self.step(async |step| {
            let is_ready = |row: &ApprovalRow| row.state == ApprovalState::Approved && row.has_quorum(counts);
            let ready = step.approval(id).await?.is_some_and(|row| is_ready(&row));
            if ready {
                step.settle_approval(id, ApprovalState::Consumed, "used").await?;
            }
            Ok(ready)
        })
    }
}

impl Step<'_> {
    async fn approval(&mut self, id: &str) -> Result<Option<ApprovalRow>, sqlx::Error> {
        let found = sqlx::query("SELECT * FROM approvals WHERE id = ?").bind(id).fetch_optional(&mut *self.transaction).await?;
        let Some(mut row) = found.as_ref().map(ApprovalRow::read).transpose()? else { return Ok(None) };
        let made = sqlx::query("SELECT * FROM decisions WHERE approval = ? ORDER BY made_at, person").bind(id);
        for decision in made.fetch_all(&mut *self.transaction).await? {
            row.decisions.push(DecisionRow {
                person: decision.get("person"),
                key: decision.get("key"),
                verdict: Verdict::read(decision.get("verdict"))?,
                envelope: decision.get("envelope"),
                standing: decision.get("standing"),
                made_at: decision.get("made_at"),
            });
        }
        Ok(Some(row))
    }

    pub(super) async fn approvals_of(&mut self, subject: &str) -> Result<Vec<ApprovalRow>, sqlx::Error> {
        let ids = sqlx::query("SELECT id FROM approvals WHERE subject = ? ORDER BY rowid").bind(subject);
        let mut rows = Vec::new();
        for id in ids.fetch_all(&mut *self.transaction).await? {
            rows.extend(self.approval(id.get("id")).await?);
        }
        Ok(rows)
    }

    pub(super) async fn insert_approval(&mut self, new: &NewApproval) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO approvals VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, NULL, NULL, '')")
            .bind(&new.id)
            .bind(&new.subject)
            .bind(&new.request)
            .bind(&new.digest)
            .bind(new.quorum)
            .bind(self.now)
            .bind(new.decide_by)
            .bind(new.execute_for)
            .execute(&mut *self.transaction)
            .await
            .map(drop)
    }

    async fn insert_decision(&mut self, id: &str, decision: &NewDecision) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)")
            .bind(id)
            .bind(&decision.person)
            .bind(&decision.key)
            .bind(decision.verdict.word())
            .bind(&decision.envelope)
            .bind(&decision.standing)
            .bind(self.now)
            .execute(&mut *self.transaction)
            .await
            .map(drop)
    }

    /// What a decision makes of its approval.
    async fn draw(&mut self, id: &str, decision: &NewDecision, counts: &Counts<'_>) -> Result<ApprovalRow, sqlx::Error> {
        let row = self.approval(id).await?.ok_or(sqlx::Error::RowNotFound)?;
        match decision.verdict {
            Verdict::Deny => {
                let cause = format!("denied by {}", decision.person);
                self.settle_approval(id, ApprovalState::Denied, &cause).await?;
                self.end_promotion(&row.subject, &[PromotionState::Waiting], PromotionState::Denied, &cause).await?;
            }
            Verdict::Approve if row.has_quorum(counts) => {
                let query = sqlx::query("UPDATE approvals SET state = 'approved', execute_by = ? + execute_for WHERE id = ?");
                query.bind(self.now).bind(id).execute(&mut *self.transaction).await?;
            }
            Verdict::Approve => {}
        }
        self.approval(id).await?.ok_or(sqlx::Error::RowNotFound)
    }

    pub(super) async fn settle_approval(&mut self, id: &str, to: ApprovalState, cause: &str) -> Result<(), sqlx::Error> {
        let query = sqlx::query("UPDATE approvals SET state = ?, settled_at = ?, cause = ? WHERE id = ?");
        query.bind(to.word()).bind(self.now).bind(cause).bind(id).execute(&mut *self.transaction).await.map(drop)
    }

    /// Lets expire what nobody decided, and what nobody used, in time; and with it the promotion that it was for.
    pub(super) async fn expire(&mut self) -> Result<(), sqlx::Error> {
        let overdue = "SELECT id, subject, state FROM approvals WHERE (state = 'pending' AND decide_by <= ?1) OR (state = 'approved' AND execute_by <= ?1)";
        for row in sqlx::query(overdue).bind(self.now).fetch_all(&mut *self.transaction).await? {
            let (id, subject): (&str, &str) = (row.get("id"), row.get("subject"));
            let cause = match ApprovalState::read(row.get("state"))? {
                ApprovalState::Approved => "it was approved, but not used in time",
                _ => "nobody decided in time",
            };
            self.settle_approval(id, ApprovalState::Expired, cause).await?;
            self.end_promotion(subject, &[PromotionState::Waiting], PromotionState::Expired, cause).await?;
        }
        Ok(())
    }
}
