//! Who may ask over the network, and what they were answered: tenants, their keys, answers that are given again, and reports that are kept for a day.
//!
//! One SQLite file that its owner alone can read. A key is shown once, when it is made; here is its SHA-256. A key holds 256 random bits, so that a plain
//! hash is as good as a slow one, and a lookup by the hash tells nobody how much of a guess was right.

mod answers;
mod keys;
mod tenants;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow, SqliteSynchronous};
use sqlx::{Connection, Sqlite, Transaction};

use crate::database::{Database, broken};
use crate::error::{At, StoreError};
use crate::home::Home;

pub use answers::{Answer, AnswerBegun, AnswerKey, KEPT_FOR_MS};
pub use keys::{Caller, KeyKind, KeyRow, NewKey};
pub use tenants::TenantRow;

/// The tenants and keys of a home.
#[derive(Debug)]
pub struct Clients {
    database: Database,
}

impl Clients {
    /// Opens those of a home. Where others can use a folder or a database of the home they are refused.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        let path = home.root().join("server.sqlite");
        home.made().try_for_each(|made| check_private(&made))?;
        for database in ["server.sqlite", "index.sqlite", "authority.sqlite"].map(|name| home.root().join(name)) {
            [beside(&database, ""), beside(&database, "-wal"), beside(&database, "-shm")]
                .iter()
                .try_for_each(|file| check_private(file))?;
        }
        let database = Database::open(&path, &sqlx::migrate!("./clients"), SqliteSynchronous::Full)?;
        Ok(Self { database })
    }

    /// One statement by itself, and its rows.
    fn all(&mut self, query: Query<'_, Sqlite, SqliteArguments>) -> Result<Vec<SqliteRow>, StoreError> {
        let Database { runtime, connection, path } = &mut self.database;
        runtime.block_on(query.fetch_all(connection)).map_err(|error| broken(path, &error))
    }

    /// One transaction: what `work` did is there whole once this returns, or not at all.
    fn step<T>(&mut self, work: impl AsyncFnOnce(&mut Transaction<'_, Sqlite>) -> Result<T, sqlx::Error>) -> Result<T, StoreError> {
        let Database { runtime, connection, path } = &mut self.database;
        let done = runtime.block_on(async {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            let answer = work(&mut transaction).await?;
            transaction.commit().await?;
            Ok(answer)
        });
        done.map_err(|error: sqlx::Error| broken(path, &error))
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// What holds keys is its owner's alone.
fn check_private(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.mode() & 0o077 != 0 => {
            let what = if meta.is_dir() { 700 } else { 600 };
            let cause = format!("can be used by others (mode {:o}); chmod {what} it", meta.mode() & 0o777);
            Err(StoreError::Open { path: path.to_owned(), cause })
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("look at", path),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Milliseconds since 1970.
fn millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn clients() -> (tempfile::TempDir, Home, Clients) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        let mut clients = Clients::open(&home).unwrap();
        assert!(clients.add_tenant("acme", &["a".into(), "b".into()]).unwrap());
        (folder, home, clients)
    }

    #[test]
    fn a_key_opens_until_it_is_revoked_and_stands_nowhere() {
        let (_folder, home, mut clients) = clients();
        let key = clients.add_key("acme", KeyKind::Api).unwrap().unwrap();
        assert!(key.expose().starts_with("rf_") && key.expose().len() == 67 && !format!("{key:?}").contains(key.expose()));
        let caller = clients.caller(key.expose()).unwrap().unwrap();
        assert_eq!((caller.tenant.as_str(), caller.kind, caller.agents), ("acme", KeyKind::Api, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(clients.caller(&key.expose()[..66]).unwrap(), None);
        assert_eq!(clients.caller("").unwrap(), None);
        for name in ["server.sqlite", "server.sqlite-wal"] {
            let bytes = fs::read(home.root().join(name)).unwrap_or_default();
            assert!(!bytes.windows(67).any(|window| window == key.expose().as_bytes()), "{name}");
        }
        assert!(clients.revoke_key(&key.id).unwrap() && !clients.revoke_key(&key.id).unwrap());
        assert_eq!(clients.caller(key.expose()).unwrap(), None);
        assert!(clients.add_key("nobody", KeyKind::E2b).unwrap().is_none());
        assert!(!clients.add_tenant("acme", &["c".into()]).unwrap());
        assert_eq!(clients.tenants().unwrap()[0].agents, ["a", "b"]);
    }

    #[test]
    fn what_others_can_read_is_refused() {
        let (_folder, home, clients) = clients();
        drop(clients);
        for name in ["server.sqlite", "keys"] {
            let path = home.root().join(name);
            let mode = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, Permissions::from_mode(mode.mode() | 0o044)).unwrap();
            let refused = Clients::open(&home).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("chmod"), "{refused}");
            fs::set_permissions(&path, mode).unwrap();
        }
        assert!(Clients::open(&home).is_ok());
    }

    #[test]
    fn a_request_is_done_once_and_answered_again() {
        let (_folder, _home, mut clients) = clients();
        let key = |request: &str, server: &str| AnswerKey {
            tenant: "acme".into(),
            key: "k".into(),
            request: request.into(),
            server: server.into(),
        };
        let answer = Answer { status: 201, location: Some("/v1/runs/x".into()), body: b"{}".to_vec() };
        assert_eq!(clients.begin_answer(&key("one", "s")).unwrap(), AnswerBegun::New);
        assert_eq!(clients.begin_answer(&key("one", "s")).unwrap(), AnswerBegun::UnderWay);
        assert_eq!(clients.begin_answer(&key("one", "later")).unwrap(), AnswerBegun::Lost);
        assert_eq!(clients.begin_answer(&key("two", "s")).unwrap(), AnswerBegun::Other);
        clients.keep_answer(&key("one", "s"), &answer).unwrap();
        assert_eq!(clients.begin_answer(&key("one", "later")).unwrap(), AnswerBegun::Answered(answer));
        let other = AnswerKey { tenant: "other".into(), ..key("two", "s") };
        assert_eq!(clients.begin_answer(&other).unwrap(), AnswerBegun::New);
        clients.forget_answer(&other).unwrap();
        assert_eq!(clients.begin_answer(&other).unwrap(), AnswerBegun::New);
    }
}
