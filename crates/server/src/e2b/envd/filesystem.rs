//! `filesystem.Filesystem`: what there is, what is made, moved, removed and watched.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use ringfence_evidence::Event;
use ringfence_isolation::{FileError, Files, OsText};
use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::{info, path, text};
use super::rpc::{self, Fault, Status};
use super::{Call, user, watch};
use crate::e2b::sandboxes::Sandbox;

/// Levels that one listing goes down at most.
const DEEPEST: u32 = 64;

pub(super) async fn answer(procedure: &str, call: Call) -> Response {
    if procedure == "WatchDir" {
        return watch::stream(call).await.unwrap_or_else(|fault| rpc::failed_stream(&fault));
    }
    match unary(procedure, call).await {
        Ok(value) => axum::Json(value).into_response(),
        Err(fault) => fault.into_response(),
    }
}

async fn unary(procedure: &str, call: Call) -> Result<Value, Fault> {
    user::check_header(&call.sandbox, call.request.headers())?;
    match procedure {
        "Stat" => stat(call).await,
        "MakeDir" => make(call).await,
        "Move" => rename(call).await,
        "ListDir" => list(call).await,
        "Remove" => remove(call).await,
        "CreateWatcher" => watch::create(call).await,
        "GetWatcherEvents" => watch::events(call).await,
        "RemoveWatcher" => watch::remove(call).await,
        other => Err(Fault::new(Status::Unimplemented, format!("there is no `{}`", other.escape_debug()))),
    }
}

#[derive(Debug, Deserialize)]
struct PathBody {
    #[serde(default)]
    path: String,
}

/// Work on the files of a sandbox, on a thread that may wait.
async fn with_files<T: Send + 'static>(
    call: &Held,
    work: impl FnOnce(&Files, &Sandbox) -> Result<T, FileError> + Send + 'static,
) -> Result<T, Fault> {
    let (files, sandbox) = (call.sandbox.session.files()?, call.sandbox.clone());
    rpc::blocking(&call.serving, move || work(&files, &sandbox).map_err(Fault::from)).await
}

/// A call whose message was read.
struct Held {
    serving: Arc<crate::serving::Serving>,
    sandbox: Arc<Sandbox>,
}

async fn read<T: serde::de::DeserializeOwned>(call: Call) -> Result<(Held, T), Fault> {
    let Call { serving, sandbox, request } = call;
    let body = rpc::unary(&serving, request).await?;
    Ok((Held { serving, sandbox }, body))
}

async fn stat(call: Call) -> Result<Value, Fault> {
    let (call, body): (_, PathBody) = read(call).await?;
    with_files(&call, move |files, sandbox| Ok(json!({ "entry": info(sandbox, &files.stat(&path(sandbox, &body.path))?) }))).await
}

async fn make(call: Call) -> Result<Value, Fault> {
    let (call, body): (_, PathBody) = read(call).await?;
    let made = with_files(&call, move |files, sandbox| files.make_folder(&path(sandbox, &body.path))).await?;
    note(&call.sandbox, "make", &made.path, None)?;
    Ok(json!({ "entry": info(&call.sandbox, &made) }))
}

#[derive(Debug, Deserialize)]
struct MoveBody {
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

async fn rename(call: Call) -> Result<Value, Fault> {
    let (call, body): (_, MoveBody) = read(call).await?;
    let from = path(&call.sandbox, &body.source);
    let source = from.clone();
    let moved = with_files(&call, move |files, sandbox| files.rename(&source, &path(sandbox, &body.destination))).await?;
    note(&call.sandbox, "move", &from, Some(&moved.path))?;
    Ok(json!({ "entry": info(&call.sandbox, &moved) }))
}

#[derive(Debug, Deserialize)]
struct ListBody {
    #[serde(default)]
    path: String,
    #[serde(default)]
    depth: u32,
}

async fn list(call: Call) -> Result<Value, Fault> {
    let (call, body): (_, ListBody) = read(call).await?;
    let depth = body.depth.clamp(1, DEEPEST);
    with_files(&call, move |files, sandbox| {
        let entries = files.list(&path(sandbox, &body.path), depth)?;
        Ok(json!({ "entries": entries.iter().map(|entry| info(sandbox, entry)).collect::<Vec<_>>() }))
    })
    .await
}

async fn remove(call: Call) -> Result<Value, Fault> {
    let (call, body): (_, PathBody) = read(call).await?;
    let gone = path(&call.sandbox, &body.path);
    let removed = gone.clone();
    with_files(&call, move |files, _| files.remove(&removed)).await?;
    note(&call.sandbox, "remove", &gone, None)?;
    Ok(json!({}))
}

fn note(sandbox: &Sandbox, act: &str, at: &OsText, to: Option<&OsText>) -> Result<(), Fault> {
    let event = Event::FileChanged { act: act.into(), path: text(at), to: to.map(text) };
    Ok(sandbox.session.note(event)?)
}
