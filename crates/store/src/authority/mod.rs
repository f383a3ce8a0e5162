//! Approvals and promotions, in one SQLite file whose commits outlive a power cut.
//!
//! Every change is one transaction that begins by asking the clock and letting what is overdue expire, so that nobody ever decides on, or uses, what
//! is over. What an approval is for, and whose decision counts, is told by the caller; here is only that each is used once.

mod approval;
mod clock;
mod promotion;
mod standing;

use sqlx::sqlite::SqliteSynchronous;
use sqlx::{Connection, Sqlite, Transaction};

use crate::database::{Database, broken};
use crate::error::StoreError;
use crate::home::Home;

pub use approval::{ApprovalRow, ApprovalState, Counts, Decided, DecisionRow, NewApproval, NewDecision, Verdict};
pub use promotion::{Begun, NewPromotion, PromotionRow, PromotionState, Started};
pub use standing::{NewStanding, StandingRow};

/// What is under way and what was decided in a home.
#[derive(Debug)]
pub struct Authority {
    database: Database,
}

/// A transaction and the time at which it stands, milliseconds since 1970.
struct Step<'t> {
    transaction: Transaction<'t, Sqlite>,
    now: i64,
}

impl Authority {
    /// Opens the record of a home.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        let path = home.root().join("authority.sqlite");
        let database = Database::open(&path, &sqlx::migrate!("./authority"), SqliteSynchronous::Full)?;
        Ok(Self { database })
    }

    /// One transaction, which nobody else's overlaps: what `work` did is there whole once this returns, or not at all.
    fn step<T>(&mut self, work: impl AsyncFnOnce(&mut Step<'_>) -> Result<T, sqlx::Error>) -> Result<T, StoreError> {
        let Database { runtime, connection, path } = &mut self.database;
        let done = runtime.block_on(async {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            let now = clock::advance(&mut transaction).await?;
            let mut step = Step { transaction, now };
            step.expire().await?;
            let answer = work(&mut step).await?;
            step.transaction.commit().await?;
            Ok(answer)
        });
        done.map_err(|error: sqlx::Error| broken(path, &error))
    }

    /// The time by which things expire here, milliseconds since 1970: never earlier than one that was seen before.
    pub fn now(&mut self) -> Result<i64, StoreError> {
        self.step(async |step| Ok(step.now))
    }
}

/// A word for each state, as the table holds it.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            fn read(word: &str) -> Result<Self, sqlx::Error> {
                match word { $($word => Ok(Self::$variant),)+ other => Err(sqlx::Error::Protocol(format!("`{other}` is no state"))) }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.word()) }
        }
    };
}
use states;
