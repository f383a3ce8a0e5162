//! The index: SQLite over what is in the folders. Whoever asks brings it up to date first; one that is damaged is put aside and made anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ringfence_evidence::{Digest, EVENTS_FILE, Event, Line, RunEnd, STATEMENT_FILE, read_chain};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow, SqliteSynchronous};
use sqlx::{Connection, Row, Sqlite};

use crate::database::{Database, broken};
use crate::error::{At, StoreError};
use crate::home::Home;

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RunRow {
    /// The run.
    pub run: String,
    /// The agent.
    pub agent: String,
    /// Who answers for it.
    pub owner: String,
    /// The profile.
    pub profile: String,
    /// When it was requested.
    pub started_at: String,
    /// When it was over.
    pub ended_at: String,
    /// How it ended.
    pub end_kind: String,
    /// More about how it ended.
    pub end_detail: String,
    /// Digest of its statement.
    pub evidence: String,
    /// The tenant of a server that asked; the command line has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Who looks: a tenant sees what is its own, and the one that may also sees what the command line did, which is no tenant's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// The tenant.
    pub tenant: String,
    /// Whether it sees what is no tenant's.
    pub sees_the_command_line: bool,
}

impl Viewer {
    /// True if what belongs to this tenant, or to none, is to be seen.
    pub fn sees(&self, tenant: Option<&str>) -> bool {
        tenant.map_or(self.sees_the_command_line, |tenant| tenant == self.tenant)
    }
}

/// Which runs are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those with this profile.
    pub profile: Option<String>,
    /// Only those that ended like this.
    pub end_kind: Option<String>,
    /// Only those that were requested before this one.
    pub before: Option<String>,
    /// At most so many.
    pub most: u32,
}

/// An artifact in a list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ArtifactRow {
    /// The run that made it.
    pub run: String,
    /// Its path.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// Digest.
    pub sha256: String,
}

/// How an agent used a profile.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UsageRow {
    /// The profile.
    pub profile: String,
    /// How many runs there were.
    pub runs: u64,
    /// When the last one was requested.
    pub last_run_at: String,
}

/// The index of a home.
#[derive(Debug)]
pub struct Index {
    database: Database,
}

impl Index {
    /// Opens the index and reads every sealed run that it does not have yet.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        let path = home.root().join("index.sqlite");
        match Self::open_and_read(home, &path) {
            // SQLITE_CORRUPT and SQLITE_NOTADB; one that is busy, or of a newer version, is left alone.
            Err(StoreError::Index { cause, .. }) if cause.contains("malformed") || cause.contains("not a database") => {
                put_aside(&path)?;
                Self::open_and_read(home, &path)
            }
            other => other,
        }
    }

    fn open_and_read(home: &Home, path: &Path) -> Result<Self, StoreError> {
        let database = Database::open(path, &sqlx::migrate!("./migrations"), SqliteSynchronous::Normal)?;
        let mut index = Self { database };
        index.catch_up(home)?;
        Ok(index)
    }

    fn catch_up(&mut self, home: &Home) -> Result<(), StoreError> {
        let known: BTreeSet<String> = self.texts("SELECT run FROM runs")?.into_iter().collect();
        let runs = home.runs();
        for entry in fs::read_dir(&runs).at("read", &runs)?.flatten() {
            let Ok(run) = entry.file_name().into_string() else { continue };
            if known.contains(&run) {
                continue;
            }
            // A run that is not sealed yet, or whose record does not read, is not in the list; `evidence verify` says why.
            if let Some(sealed) = read_sealed(&entry.path()) {
                self.insert(&run, &sealed)?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, run: &str, sealed: &Sealed) -> Result<(), StoreError> {
        let Database { runtime, connection, path } = &mut self.database;
        let row = sealed.row(run);
        let inserted = runtime.block_on(async {
            let mut transaction = connection.begin().await?;
            sqlx::query("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                .bind(&row.run)
                .bind(&row.agent)
                .bind(&row.owner)
                .bind(&row.profile)
                .bind(&row.started_at)
                .bind(&row.ended_at)
                .bind(&row.end_kind)
                .bind(&row.end_detail)
                .bind(&row.evidence)
                .bind(&row.tenant)
                .execute(&mut *transaction)
                .await?;
            for line in &sealed.lines {
                if let Event::ArtifactExported { artifact } = &line.event {
                    sqlx::query("INSERT OR IGNORE INTO artifacts VALUES (?, ?, ?, ?)")
                        .bind(run)
                        .bind(&artifact.path)
                        .bind(i64::try_from(artifact.bytes).unwrap_or(i64::MAX))
                        .bind(artifact.sha256.to_string())
                        .execute(&mut *transaction)
                        .await?;
                }
            }
            transaction.commit().await
        });
        inserted.map_err(|e| broken(path, &e))
    }

    fn texts(&mut self, query: &'static str) -> Result<Vec<String>, StoreError> {
        let rows = self.all(sqlx::query(query))?;
        Ok(rows.into_iter().map(|row| row.get(0)).collect())
    }

    fn all(&mut self, query: Query<'_, Sqlite, SqliteArguments>) -> Result<Vec<SqliteRow>, StoreError> {
        let Database { runtime, connection, path } = &mut self.database;
        runtime.block_on(query.fetch_all(connection)).map_err(|e| broken(path, &e))
    }

    /// The newest runs.
    pub fn runs(&mut self, most: u32) -> Result<Vec<RunRow>, StoreError> {
        let query = sqlx::query("SELECT * FROM runs ORDER BY run DESC LIMIT ?").bind(most);
        Ok(self.all(query)?.iter().map(run_row).collect())
    }

    /// One run, if it is there and the viewer sees it.
    pub fn run_of(&mut self, viewer: &Viewer, run: &str) -> Result<Option<RunRow>, StoreError> {
        let query = sqlx::query("SELECT * FROM runs WHERE run = ? AND (tenant = ? OR (? AND tenant IS NULL))");
        let rows = self.all(query.bind(run).bind(&viewer.tenant).bind(viewer.sees_the_command_line))?;
        Ok(rows.first().map(run_row))
    }

    /// The newest runs that the viewer sees and the filter lets through.
    pub fn runs_of(&mut self, viewer: &Viewer, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let query = sqlx::query(
            "SELECT * FROM runs WHERE (tenant = ?1 OR (?2 AND tenant IS NULL)) AND (?3 IS NULL OR agent = ?3) AND (?4 IS NULL OR profile = ?4) \
             AND (?5 IS NULL OR end_kind = ?5) AND (?6 IS NULL OR run < ?6) ORDER BY run DESC LIMIT ?7",
        );
        let query = query.bind(&viewer.tenant).bind(viewer.sees_the_command_line).bind(&filter.agent).bind(&filter.profile);
        let rows = self.all(query.bind(&filter.end_kind).bind(&filter.before).bind(filter.most))?;
        Ok(rows.iter().map(run_row).collect())
    }

    /// The runs that made an artifact and that the viewer sees, the newest first.
    pub fn made_of(&mut self, viewer: &Viewer, artifact: &Digest) -> Result<Vec<ArtifactRow>, StoreError> {
        let query = sqlx::query(
            "SELECT artifacts.* FROM artifacts JOIN runs ON runs.run = artifacts.run WHERE artifacts.sha256 = ?1 \
             AND (runs.tenant = ?2 OR (?3 AND runs.tenant IS NULL)) ORDER BY artifacts.run DESC, path LIMIT 1000",
        );
        let query = query.bind(artifact.to_string()).bind(&viewer.tenant).bind(viewer.sees_the_command_line);
        self.all(query).map(|rows| rows.iter().map(artifact_row).collect())
    }

    /// The runs that made an artifact, the newest first.
    pub fn made(&mut self, artifact: &Digest) -> Result<Vec<ArtifactRow>, StoreError> {
        let query = sqlx::query("SELECT * FROM artifacts WHERE sha256 = ? ORDER BY run DESC, path").bind(artifact.to_string());
        self.all(query).map(|rows| rows.iter().map(artifact_row).collect())
    }

    /// The agents whose runs made an artifact.
    pub fn agents_that_made(&mut self, artifact: &Digest) -> Result<Vec<String>, StoreError> {
        let query = "SELECT DISTINCT agent FROM runs JOIN artifacts ON artifacts.run = runs.run WHERE artifacts.sha256 = ?";
        let rows = self.all(sqlx::query(query).bind(artifact.to_string()))?;
        Ok(rows.iter().map(|row| row.get("agent")).collect())
    }

    /// The artifacts of one run, or of the newest runs.
    pub fn artifacts(&mut self, run: Option<&str>) -> Result<Vec<ArtifactRow>, StoreError> {
        let query = sqlx::query("SELECT * FROM artifacts WHERE ?1 IS NULL OR run = ?1 ORDER BY run DESC, path LIMIT 10000").bind(run);
        self.all(query).map(|rows| rows.iter().map(artifact_row).collect())
    }

    /// What an agent used, by profile. A run that was refused used nothing.
    pub fn usage(&mut self, agent: &str) -> Result<Vec<UsageRow>, StoreError> {
        let query = sqlx::query(
            "SELECT profile, COUNT(*) AS runs, MAX(started_at) AS last_run_at FROM runs WHERE agent = ? AND end_kind <> 'refused' GROUP BY profile",
        );
        let rows = self.all(query.bind(agent))?;
        let row = |r: SqliteRow| UsageRow {
            profile: r.get("profile"),
            runs: u64::try_from(r.get::<i64, _>("runs")).unwrap_or(0),
            last_run_at: r.get("last_run_at"),
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

fn run_row(row: &SqliteRow) -> RunRow {
    RunRow {
        run: row.get("run"),
        agent: row.get("agent"),
        owner: row.get("owner"),
        profile: row.get("profile"),
        started_at: row.get("started_at"),
        ended_at: row.get("ended_at"),
        end_kind: row.get("end_kind"),
        end_detail: row.get("end_detail"),
        evidence: row.get("evidence"),
        tenant: row.get("tenant"),
    }
}

fn artifact_row(row: &SqliteRow) -> ArtifactRow {
    ArtifactRow {
        run: row.get("run"),
        path: row.get("path"),
        bytes: u64::try_from(row.get::<i64, _>("bytes")).unwrap_or(0),
        sha256: row.get("sha256"),
    }
}

/// Nothing is thrown away: the damaged file stays under another name.
fn put_aside(path: &Path) -> Result<(), StoreError> {
    let aside = path.with_extension(format!("damaged-{}", std::process::id()));
    fs::rename(path, &aside).at("put aside", path)?;
    for ending in ["sqlite-wal", "sqlite-shm"] {
        match fs::remove_file(path.with_extension(ending)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).at("remove", path),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

struct Sealed {
    lines: Vec<Line>,
    evidence: Digest,
}

fn read_sealed(folder: &Path) -> Option<Sealed> {
    let statement = fs::read(folder.join(STATEMENT_FILE)).ok()?;
    let lines = read_chain(&fs::read(folder.join(EVENTS_FILE)).ok()?).ok()?;
    (!lines.is_empty()).then(|| Sealed { lines, evidence: Digest::of(&statement) })
}

impl Sealed {
    fn row(&self, run: &str) -> RunRow {
        let (mut agent, mut owner, mut profile, mut tenant) = (String::new(), String::new(), String::new(), None);
        if let Some(Event::RunRequested { agent: a, owner: o, profile: p, tenant: t, .. }) = self.lines.first().map(|l| &l.event) {
            (agent, owner, profile, tenant) = (a.clone(), o.clone(), p.clone(), t.clone());
        }
        let at = |line: Option<&Line>| line.map_or_else(String::new, |l| l.at.clone());
        let (end_kind, end_detail) = match self.lines.last().map(|l| &l.event) {
            Some(Event::RunEnded { end }) => words(end),
            _ => (String::new(), String::new()),
        };
        RunRow {
            run: run.to_owned(),
            agent,
            owner,
            profile,
            started_at: at(self.lines.first()),
            ended_at: at(self.lines.last()),
            end_kind,
            end_detail,
            evidence: self.evidence.to_string(),
            tenant,
        }
    }
}

fn words(end: &RunEnd) -> (String, String) {
    match end {
        RunEnd::Exited { code } => ("exited".into(), code.to_string()),
        RunEnd::Signaled { signal } => ("signaled".into(), signal.clone()),
        RunEnd::Limit { limit } => ("limit".into(), limit.clone()),
        RunEnd::Refused { rule, .. } => ("refused".into(), rule.clone()),
        RunEnd::Closed { by } => ("closed".into(), by.word().into()),
        RunEnd::Failed { step, .. } => ("failed".into(), step.clone()),
    }
}
