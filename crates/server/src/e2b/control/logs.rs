//! The log of a sandbox: what its record tells of commands, cells, files and ports, in the form of E2B. The record itself is read by way of our own API.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use http::Uri;
use ringfence_evidence::{EVENTS_FILE, Event, Line, RunEnd};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::owned;
use crate::asked::By;
use crate::e2b::envd::query;
use crate::e2b::error::E2bError;
use crate::serving::Serving;

/// Entries of one answer at most, and where the client does not say.
const MOST: usize = 1000;
/// Bytes of the record that are looked through at most: its last.
const LOOKED_AT: u64 = 8 << 20;

/// Which entries are wanted.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// Milliseconds since 1970 from which on, or before which.
    cursor: Option<i128>,
    limit: usize,
    is_backward: bool,
    level: Option<String>,
    search: Option<String>,
}

impl Wanted {
    fn of(query: &BTreeMap<String, String>) -> Result<Self, E2bError> {
        let bad = |name: &str, form: &str| E2bError::bad(format!("{name}: {form}"));
        let text = |name: &str| query.get(name).filter(|text| !text.is_empty()).cloned();
        let cursor = text("cursor").or_else(|| text("start")).map(|ms| ms.parse()).transpose();
        let limit = text("limit").map_or(Some(MOST), |limit| limit.parse().ok().filter(|limit| (1..=MOST).contains(limit)));
        let is_backward = match text("direction").as_deref() {
            None | Some("forward") => false,
            Some("backward") => true,
            Some(_) => return Err(bad("direction", "`forward` or `backward`")),
        };
        Ok(Self {
            cursor: cursor.map_err(|_| bad("cursor", "milliseconds since 1970"))?,
            limit: limit.ok_or_else(|| bad("limit", &format!("a number from 1 to {MOST}")))?,
            is_backward,
            level: text("level"),
            search: text("search"),
        })
    }

    fn fits(&self, entry: &Entry) -> bool {
        let is_in_time = self.cursor.is_none_or(|cursor| if self.is_backward { entry.at <= cursor } else { entry.at >= cursor });
        is_in_time
            && self.level.as_ref().is_none_or(|level| level == entry.level)
            && self.search.as_ref().is_none_or(|word| entry.message.contains(word.as_str()))
    }
}

/// One thing that happened.
#[derive(Debug)]
struct Entry {
    at: i128,
    timestamp: String,
    level: &'static str,
    message: String,
}

impl Entry {
    fn of(line: Line) -> Option<Self> {
        let (level, message) = in_words(&line.event)?;
        let at = OffsetDateTime::parse(&line.at, &Rfc3339).ok()?.unix_timestamp_nanos() / 1_000_000;
        Some(Self { at, timestamp: line.at, level, message })
    }
}

/// What is told of an event; nothing of those that say how the sandbox came to be.
fn in_words(event: &Event) -> Option<(&'static str, String)> {
    let told = match event {
        Event::CommandStarting { command, argv, folder, .. } => {
            ("info", format!("command {command} starts in {folder}: {}", argv.join(" ")))
        }
        Event::CommandEnded { command, end, .. } => ended(*command, end),
        Event::CommandSignaled { command, signal } => ("info", format!("command {command} is sent {signal}")),
        Event::CellStarting { command, cell, bytes, .. } => ("info", format!("cell {cell} of command {command} starts: {bytes} bytes")),
        Event::CellEnded { command, cell, error: None } => ("info", format!("cell {cell} of command {command} has ended")),
        Event::CellEnded { command, cell, error: Some(error) } => ("warn", format!("cell {cell} of command {command} has ended: {error}")),
        Event::FileReceived { path, bytes, .. } => ("info", format!("file written from outside: {path}, {bytes} bytes")),
        Event::FileSent { path, bytes, .. } => ("info", format!("file read from outside: {path}, {bytes} bytes")),
        Event::FileChanged { act, path, to: None } => ("info", format!("file changed from outside: {act} {path}")),
        Event::FileChanged { act, path, to: Some(to) } => ("info", format!("file changed from outside: {act} {path} to {to}")),
        Event::PortOpened { port } => ("debug", format!("port {port} is connected to")),
        _ => return None,
    };
    Some(told)
}

fn ended(command: u32, end: &RunEnd) -> (&'static str, String) {
    match end {
        RunEnd::Exited { code: 0 } => ("info", format!("command {command} has ended")),
        RunEnd::Exited { code } => ("warn", format!("command {command} has ended: exit status {code}")),
        RunEnd::Signaled { signal } => ("warn", format!("command {command} was ended by {signal}")),
        other => ("error", format!("command {command} was ended: {other:?}")),
    }
}

/// The entries of a record that are wanted, in the order in which they are wanted; `from` is at the beginning of a line.
fn entries(from: impl Read, wanted: &Wanted) -> Vec<Entry> {
    let mut found = VecDeque::new();
    // A line that is being written is none yet.
    for entry in BufReader::new(from).lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok().and_then(Entry::of))
    {
        if !wanted.fits(&entry) {
            continue;
        }
        found.push_back(entry);
        match (wanted.is_backward, found.len() > wanted.limit) {
            (true, true) => drop(found.pop_front()),
            (false, true) => {
                found.pop_back();
                break;
            }
            (_, false) => {}
        }
    }
    if wanted.is_backward { found.into_iter().rev().collect() } else { found.into() }
}

/// The last part of a record, from the beginning of a line.
fn last_part(mut file: File) -> std::io::Result<impl Read> {
    use std::io::{Seek, SeekFrom};
    let skipped = file.metadata()?.len().saturating_sub(LOOKED_AT);
    file.seek(SeekFrom::Start(skipped))?;
    let mut reader = BufReader::new(file);
    if skipped > 0 {
        reader.skip_until(b'\n')?;
    }
    Ok(reader)
}

async fn read(serving: &Arc<Serving>, caller: &ringfence_store::Caller, id: &str, uri: &Uri) -> Result<Vec<Entry>, E2bError> {
    let wanted = Wanted::of(&query(uri))?;
    let sandbox = owned(serving, caller, id)?;
    let path = serving.home().runs().join(sandbox.session.run.as_str()).join(EVENTS_FILE);
    let read = serving.blocking(move |serving| {
        let part = File::open(&path).and_then(last_part).map_err(|error| serving.failed(&error))?;
        Ok(entries(part, &wanted))
    });
    Ok(read.await?)
}

fn told(entry: &Entry) -> Value {
    json!({ "timestamp": entry.timestamp, "level": entry.level, "message": entry.message, "fields": {} })
}

/// As the old path tells them: as lines, and in parts.
pub(super) async fn lines(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, E2bError> {
    let entries = read(&serving, &caller, &id, &uri).await?;
    let lines: Vec<Value> = entries.iter().map(|entry| json!({ "timestamp": entry.timestamp, "line": entry.message })).collect();
    Ok(Json(json!({ "logs": lines, "logEntries": entries.iter().map(told).collect::<Vec<_>>() })))
}

/// In parts.
pub(super) async fn parts(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, E2bError> {
    let entries = read(&serving, &caller, &id, &uri).await?;
    Ok(Json(json!({ "logs": entries.iter().map(told).collect::<Vec<_>>() })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(query: &str) -> Result<Wanted, String> {
        Wanted::of(&crate::e2b::envd::pairs(query)).map_err(|error| error.message)
    }

    fn record() -> String {
        let zeros = "0".repeat(64);
        let line = |seq: u32, event: &str| {
            format!("{{\"seq\":{seq},\"at\":\"2026-01-01T00:00:0{seq}.000Z\",\"elapsed_ms\":0,\"prev\":\"sha256:{zeros}\",{event}}}\n")
        };
        let opened = |port: u32| line(port, &format!("\"event\":\"port_opened\",\"port\":{port}"));
        let ended = line(4, "\"event\":\"cell_ended\",\"command\":2,\"cell\":7,\"error\":\"ValueError\"");
        [opened(1), opened(2), opened(3), ended, "{\"seq\":5,\"at".into()].concat()
    }

    fn messages(query: &str) -> Vec<String> {
        entries(record().as_bytes(), &wanted(query).unwrap()).into_iter().map(|entry| entry.message).collect()
    }

    #[test]
    fn a_log_is_told_in_either_direction() {
        let port = |port: u32| format!("port {port} is connected to");
        let failed = "cell 7 of command 2 has ended: ValueError".to_owned();
        assert_eq!(messages(""), [port(1), port(2), port(3), failed.clone()]);
        assert_eq!(messages("limit=2"), [port(1), port(2)]);
        assert_eq!(messages("limit=2&direction=backward"), [failed.clone(), port(3)]);
        assert_eq!(messages("start=1767225603000"), [port(3), failed.clone()]);
        assert_eq!(messages("cursor=1767225602000&direction=backward"), [port(2), port(1)]);
        assert_eq!(messages("level=warn"), std::slice::from_ref(&failed));
        assert_eq!(messages("search=command+2"), [failed]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for query in ["limit=0", "limit=1001", "limit=x", "cursor=soon", "direction=up"] {
            assert!(wanted(query).is_err(), "{query}");
        }
    }
}
