//! Answers that are given again to whoever asks the same with the same key, and reports of runs: both for a day.

use sqlx::Row;

use super::{Clients, millis};
use crate::error::StoreError;

/// How long answers and reports are kept, milliseconds.
pub const KEPT_FOR_MS: i64 = 24 * 60 * 60 * 1000;

/// Which request is meant.
#[derive(Debug, Clone)]
pub struct AnswerKey {
    /// The tenant that asks.
    pub tenant: String,
    /// The client's word for the request.
    pub key: String,
    /// SHA-256 of the request.
    pub request: String,
    /// The server that is asked: each start has a name of its own.
    pub server: String,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Where the thing is that was made.
    pub location: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// What is to be done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerBegun {
    /// It is new: it is to be done, and its answer to be kept.
    New,
    /// It was answered before.
    Answered(Answer),
    /// The key stands for another request.
    Other,
    /// Somebody is at it.
    UnderWay,
    /// A server was at it, and is gone: nobody knows what it did.
    Lost,
}

impl Clients {
    /// Begins a request, unless it was begun before.
    pub fn begin_answer(&mut self, key: &AnswerKey) -> Result<AnswerBegun, StoreError> {
        let now = millis();
        self.step(async |transaction| {
            let swept = sqlx::query("DELETE FROM answers WHERE tenant = ? AND key = ? AND made_at < ?");
            swept.bind(&key.tenant).bind(&key.key).bind(now - KEPT_FOR_MS).execute(&mut **transaction).await?;
            let query = sqlx::query("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?)");
            let query = query.bind(&key.tenant).bind(&key.key).bind(&key.request).bind(&key.server).bind(now);
            if query.execute(&mut **transaction).await?.rows_affected() == 1 {
                return Ok(AnswerBegun::New);
            }
            let query = sqlx::query("SELECT * FROM answers WHERE tenant = ? AND key = ?").bind(&key.tenant).bind(&key.key);
            let row = query.fetch_one(&mut **transaction).await?;
            if row.get::<String, _>("request") != key.request {
                return Ok(AnswerBegun::Other);
            }
            let status = row.get::<Option<i64>, _>("status").and_then(|status| u16::try_from(status).ok());
            Ok(match status {
                Some(status) => AnswerBegun::Answered(Answer { status, location: row.get("location"), body: row.get("body") }),
                None if row.get::<String, _>("server") == key.server => AnswerBegun::UnderWay,
                None => AnswerBegun::Lost,
            })
        })
    }

    /// Keeps the answer to a request that was begun.
    pub fn keep_answer(&mut self, key: &AnswerKey, answer: &Answer) -> Result<(), StoreError> {
        self.step(async |transaction| {
            let query = sqlx::query("UPDATE answers SET status = ?, location = ?, body = ? WHERE tenant = ? AND key = ? AND request = ?");
            let query = query.bind(i64::from(answer.status)).bind(&answer.location).bind(&answer.body);
            query.bind(&key.tenant).bind(&key.key).bind(&key.request).execute(&mut **transaction).await.map(drop)
        })
    }

    /// Forgets a request that came to nothing, so that it can be asked again.
    pub fn forget_answer(&mut self, key: &AnswerKey) -> Result<(), StoreError> {
        self.step(async |transaction| {
            let query = sqlx::query("DELETE FROM answers WHERE tenant = ? AND key = ? AND request = ? AND status IS NULL");
            query.bind(&key.tenant).bind(&key.key).bind(&key.request).execute(&mut **transaction).await.map(drop)
        })
    }

    /// Keeps the report of a run, as JSON.
    pub fn keep_report(&mut self, run: &str, report: &str) -> Result<(), StoreError> {
        self.step(async |transaction| {
            let query = sqlx::query("INSERT OR REPLACE INTO reports VALUES (?, ?, ?)").bind(run).bind(report).bind(millis());
            query.execute(&mut **transaction).await.map(drop)
        })
    }

    /// The report of a run, as JSON, while it is kept.
    pub fn report(&mut self, run: &str) -> Result<Option<String>, StoreError> {
        self.step(async |transaction| {
            let query = sqlx::query("SELECT report FROM reports WHERE run = ? AND made_at >= ?").bind(run).bind(millis() - KEPT_FOR_MS);
            Ok(query.fetch_optional(&mut **transaction).await?.map(|row| row.get("report")))
        })
    }

    /// Removes what is older than it is kept.
    pub fn sweep(&mut self) -> Result<(), StoreError> {
        let oldest = millis() - KEPT_FOR_MS;
        self.step(async |transaction| {
            sqlx::query("DELETE FROM answers WHERE made_at < ?").bind(oldest).execute(&mut **transaction).await?;
            sqlx::query("DELETE FROM reports WHERE made_at < ?").bind(oldest).execute(&mut **transaction).await.map(drop)
        })
    }
}
