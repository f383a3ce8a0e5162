//! One SQLite file, used by several processes at once: opened, brought to the newest form, asked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::runtime::Runtime;

use crate::error::{At, StoreError};

/// An open database, and what waits for it.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) runtime: Runtime,
    pub(crate) connection: SqliteConnection,
    pub(crate) path: PathBuf,
}

impl Database {
    /// Opens a database, making it if it is not there. `synchronous` says whether what was committed outlives a power cut.
    pub(crate) fn open(path: &Path, migrations: &Migrator, synchronous: SqliteSynchronous) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().at("start a runtime for", path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .busy_timeout(Duration::from_secs(30))
            .foreign_keys(true)
            .disable_statement_logging();
        let opened = runtime.block_on(async {
            let mut connection = options.connect().await?;
            migrations.run(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        });
        let connection = opened.map_err(|e| broken(path, &e))?;
        Ok(Self { runtime, connection, path: path.to_owned() })
    }
}

pub(crate) fn broken(path: &Path, cause: &dyn std::fmt::Display) -> StoreError {
    StoreError::Index { path: path.to_owned(), cause: cause.to_string() }
}
