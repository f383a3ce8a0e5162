//! Folders that are watched: for clients that listen, and for those that ask now and then.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use ringfence_isolation::{FileEvent, Files, OsText, Watch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::entry::{change, info, path};
use super::rpc::{self, Batch, Fault, Outgoing, Status};
use super::{Call, user};
use crate::e2b::sandboxes::{Sandbox, new_token};

/// Watchers of one sandbox at most, and events that wait for a client that does not ask.
const MOST_WATCHERS: usize = 64;
const MOST_EVENTS: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchBody {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    include_entry: bool,
}

/// A folder, watched.
#[derive(Debug)]
struct Watcher {
    files: Arc<Files>,
    watch: Watch,
    folder: OsText,
    has_entries: bool,
}

/// What is watched for clients that ask.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<BTreeMap<String, Asked>>);

#[derive(Debug)]
struct Asked {
    watcher: Watcher,
    waiting: VecDeque<Value>,
}

impl Watcher {
    fn begin(sandbox: &Sandbox, body: &WatchBody) -> Result<Self, Fault> {
        let files = sandbox.session.files()?;
        let folder = path(sandbox, &body.path);
        let watch = files.watch(&folder, body.recursive)?;
        Ok(Self { files, watch, folder, has_entries: body.include_entry })
    }

    /// What has changed since the last look, in the words of the protocol.
    fn look(&mut self, sandbox: &Sandbox) -> Result<Vec<Value>, Fault> {
        let changes = self.files.changes(&mut self.watch)?;
        Ok(changes.into_iter().map(|event| self.word(sandbox, &event)).collect())
    }

    fn word(&self, sandbox: &Sandbox, event: &FileEvent) -> Value {
        let mut word = json!({ "name": super::entry::text(&event.name), "type": change(event.change) });
        if self.has_entries {
            let at = OsText::from([self.folder.as_bytes(), b"/", event.name.as_bytes()].concat().as_slice());
            // What has gone meanwhile is told without more.
            if let Ok(entry) = self.files.stat(&at) {
                word["entry"] = info(sandbox, &entry);
            }
        }
        word
    }
}

/// Tells a client that listens, until it goes away or the folder cannot be watched any more.
pub(super) async fn stream(call: Call) -> Result<Response, Fault> {
    let Call { serving, sandbox, request } = call;
    user::check_header(&sandbox, request.headers())?;
    let (keepalive, line) = (rpc::keepalive(request.headers()), rpc::line(&request));
    let body: WatchBody = rpc::first(&serving, request).await?;
    let watched = sandbox.clone();
    let watcher = rpc::blocking(&serving, move || Watcher::begin(&watched, &body)).await?;
    let (outgoing, response) = Outgoing::new(line);
    tokio::spawn(async move {
        if !outgoing.send(&json!({ "start": {} })).await {
            return;
        }
        let Ok(ready) = ready(&watcher.watch) else {
            return outgoing.break_off().await;
        };
        let mut watcher = watcher;
        loop {
            let heard = tokio::select! {
                heard = tokio::time::timeout(keepalive, ready.readable()) => heard,
                () = outgoing.gone() => return,
                () = sandbox.session.over() => return outgoing.break_off().await,
            };
            let Ok(readable) = heard else { if outgoing.send(&json!({ "keepalive": {} })).await { continue } else { return } };
            if let Ok(mut guard) = readable {
                guard.clear_ready();
            }
            let seen = sandbox.clone();
            let looked = rpc::blocking(&serving, move || watcher.look(&seen).map(|words| (watcher, words))).await;
            let words = match looked {
                Ok((back, words)) => {
                    watcher = back;
                    words
                }
                Err(fault) => return outgoing.end(Batch::default(), Some(&fault)).await,
            };
            for word in words {
                if !outgoing.send(&json!({ "filesystem": word })).await {
                    return;
                }
            }
        }
    });
    Ok(response)
}

/// Tells when a watch has something to say.
#[expect(
    deprecated,
    reason = "the descriptor is our own and stays open for as long as it is registered, which is all that the new call asks for"
)]
fn ready(watch: &Watch) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(watch.as_fd().try_clone_to_owned()?, Interest::READABLE)
}

/// Begins to watch for a client that will ask.
pub(super) async fn create(call: Call) -> Result<Value, Fault> {
    let Call { serving, sandbox, request } = call;
    let body: WatchBody = rpc::unary(&serving, request).await?;
    rpc::blocking(&serving, move || {
        let id = new_token().map_err(|_| Fault::new(Status::Internal, "no random name could be made"))?[..16].to_owned();
        let watcher = Watcher::begin(&sandbox, &body)?;
        let mut known = sandbox.watchers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_WATCHERS {
            return Err(Fault::new(Status::ResourceExhausted, format!("{MOST_WATCHERS} watchers are open, which is the most")));
        }
        known.insert(id.clone(), Asked { watcher, waiting: VecDeque::new() });
        Ok(json!({ "watcherId": id }))
    })
    .await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatcherBody {
    #[serde(default)]
    watcher_id: String,
}

fn unknown(id: &str) -> Fault {
    Fault::new(Status::NotFound, format!("watcher `{}` was not found", id.escape_debug()))
}

/// What has changed since the client asked last.
pub(super) async fn events(call: Call) -> Result<Value, Fault> {
    let Call { serving, sandbox, request } = call;
    let body: WatcherBody = rpc::unary(&serving, request).await?;
    rpc::blocking(&serving, move || {
        let mut known = sandbox.watchers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = known.get_mut(&body.watcher_id).ok_or_else(|| unknown(&body.watcher_id))?;
        let seen = asked.watcher.look(&sandbox)?;
        asked.waiting.extend(seen);
        let most = asked.waiting.len().min(MOST_EVENTS);
        Ok(json!({ "events": asked.waiting.drain(..most).collect::<Vec<_>>() }))
    })
    .await
}

pub(super) async fn remove(call: Call) -> Result<Value, Fault> {
    let Call { serving, sandbox, request } = call;
    let body: WatcherBody = rpc::unary(&serving, request).await?;
    let removed = sandbox.watchers.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&body.watcher_id);
    removed.map(|_| json!({})).ok_or_else(|| unknown(&body.watcher_id))
}
