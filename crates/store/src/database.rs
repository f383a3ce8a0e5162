//! One SQLite file, used by several processes at once: opened, brought to the newest form, asked.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
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
        let _turn = first_use(path)?;
        make_private(path)?;
        let opened = runtime.block_on(async {
            let mut connection = options.connect().await?;
            migrations.run(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        });
        let connection = opened.map_err(|e| broken(path, &e))?;
        Ok(Self { runtime, connection, path: path.to_owned() })
    }
}

/// Its owner's alone from its first byte, and with it what stands beside it: SQLite gives that the same mode. One that is there is not opened: closing it would
/// let go of the locks that another connection of this process has on it.
fn make_private(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error).at("make", path),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// One process at a time makes a database or brings it to the newest form: the library's own steps are not safe against another's, and changing the
/// journal's mode does not wait for anybody. Let go of when it is dropped.
fn first_use(path: &Path) -> Result<File, StoreError> {
    let place = path.with_extension("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&place).at("open", &place)?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(std::io::Error::from(errno)).at("lock", &place),
        }
    }
}

pub(crate) fn broken(path: &Path, cause: &dyn std::fmt::Display) -> StoreError {
    StoreError::Index { path: path.to_owned(), cause: cause.to_string() }
}
