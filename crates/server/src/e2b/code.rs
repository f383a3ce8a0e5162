//! The code interpreter of a sandbox: contexts, and cells whose events are lines of JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use ringfence_control::cells::ndjson::Line;
use ringfence_control::cells::{CellEvent, CellRequest, Language};
use ringfence_control::{CodeContext, SessionError};
use ringfence_evidence::Event;
use ringfence_isolation::{FileError, OsText};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::error::E2bError;
use super::sandboxes::{Sandbox, new_token};
use crate::asked::{Asked, Wanted};
use crate::moment::rfc3339;
use crate::reply::Parts;
use crate::serving::Serving;

/// How often an execution says something.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Languages of which clients expect a context to be there from the beginning.
const ALWAYS: &[Language] = &[Language::Python, Language::JavaScript];

/// The language of a cell that names neither a language nor a context.
const USUAL: &str = "python";

pub(super) async fn answer(serving: Arc<Serving>, sandbox: Arc<Sandbox>, request: Request) -> Response {
    match routed(serving, sandbox, request).await {
        Ok(response) => response,
        // Its clients read the text of an error as it is.
        Err(error) => (error.status, error.message).into_response(),
    }
}

async fn routed(serving: Arc<Serving>, sandbox: Arc<Sandbox>, request: Request) -> Result<Response, E2bError> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method, parts.as_slice()) {
        (Method::GET, ["health"]) => Ok((StatusCode::OK, "OK").into_response()),
        (Method::POST, ["execute"]) => execute(&serving, sandbox, request).await,
        (Method::GET, ["contexts"]) => Ok(axum::Json(list(&sandbox)).into_response()),
        (Method::POST, ["contexts"]) => add(&serving, &sandbox, request).await,
        (Method::POST, ["contexts", id, "restart"]) => {
            sandbox.session.restart_context(&*found(&sandbox, id).await?).await?;
            Ok(axum::Json(json!({})).into_response())
        }
        (Method::DELETE, ["contexts", id]) => {
            sandbox.session.remove_context(&*found(&sandbox, id).await?)?;
            Ok(axum::Json(json!({})).into_response())
        }
        _ => Err(E2bError::new(StatusCode::NOT_FOUND, "there is no such path in the code interpreter")),
    }
}

fn told(context: &CodeContext) -> Value {
    json!({ "id": context.id, "language": context.language.name(), "cwd": context.cwd })
}

/// Those that are always there come first, whether they have begun or not; then the others, the oldest first.
fn list(sandbox: &Sandbox) -> Vec<Value> {
    let begun = sandbox.session.contexts();
    let always = ALWAYS.iter().map(|language| {
        let id = usual_id(*language);
        let known = begun.iter().find(|context| context.id == id).map(|context| told(context));
        known.unwrap_or_else(|| json!({ "id": id, "language": language.name(), "cwd": sandbox.session.user.home() }))
    });
    let is_other = |context: &&Arc<CodeContext>| ALWAYS.iter().all(|language| context.id != usual_id(*language));
    always.chain(begun.iter().filter(is_other).map(|context| told(context))).collect()
}

/// A context by its name; one that is always there begins when it is first asked for.
async fn found(sandbox: &Sandbox, id: &str) -> Result<Arc<CodeContext>, E2bError> {
    let missing = || E2bError::new(StatusCode::NOT_FOUND, format!("Context {} not found", id.escape_debug()));
    match ALWAYS.iter().find(|language| usual_id(**language) == id) {
        Some(language) => Ok(usual(sandbox, *language).await?),
        None => sandbox.session.context(id).ok_or_else(missing),
    }
}

fn usual_id(language: Language) -> String {
    format!("default-{}", language.name())
}

fn language(name: &str) -> Result<Language, E2bError> {
    Language::parse(name).map_err(|error| E2bError::bad(error.to_string()))
}

#[derive(Debug, Deserialize)]
struct ContextBody {
    cwd: Option<String>,
    language: Option<String>,
}

impl Wanted for ContextBody {
    const MOST_BYTES: usize = 64 << 10;
    const IS_OPTIONAL: bool = true;
}

async fn asked<T: Wanted>(serving: &Arc<Serving>, request: Request) -> Result<T, E2bError> {
    use axum::extract::FromRequest;
    Ok(Asked::<T>::from_request(request, serving).await?.body)
}

async fn add(serving: &Arc<Serving>, sandbox: &Arc<Sandbox>, request: Request) -> Result<Response, E2bError> {
    let body: ContextBody = asked(serving, request).await?;
    let language = language(body.language.as_deref().unwrap_or(USUAL))?;
    let id = new_token().map_err(|error| E2bError::from(serving.failed(&error)))?[..32].to_owned();
    let cwd = body.cwd.filter(|cwd| !cwd.is_empty());
    if let Some(cwd) = cwd.clone() {
        let sandbox = sandbox.clone();
        serving.blocking(move |_| Ok(make_folder(&sandbox, &cwd))).await??;
    }
    let context = sandbox.session.add_context(id, language, cwd).await?;
    Ok(axum::Json(told(&context)).into_response())
}

/// A folder in which a context is to begin is made if it is not there, as clients expect.
fn make_folder(sandbox: &Sandbox, cwd: &str) -> Result<(), E2bError> {
    let made = sandbox.session.files()?.make_folder(&OsText::from(cwd));
    match made {
        Ok(made) => {
            let path = made.path.as_os_str().to_string_lossy().into_owned();
            Ok(sandbox.session.note(Event::FileChanged { act: "make".into(), path, to: None })?)
        }
        Err(FileError::Exists { is_folder: true, .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, Deserialize)]
struct ExecuteBody {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

impl Wanted for ExecuteBody {
    const MOST_BYTES: usize = 2 << 20;
}

async fn execute(serving: &Arc<Serving>, sandbox: Arc<Sandbox>, request: Request) -> Result<Response, E2bError> {
    let body: ExecuteBody = asked(serving, request).await?;
    let context = match (&body.context_id, &body.language) {
        (Some(_), Some(_)) => return Err(E2bError::bad("Only one of context_id or language can be provided")),
        (Some(id), None) => found(&sandbox, id).await?,
        (None, named) => usual(&sandbox, language(named.as_deref().unwrap_or(USUAL))?).await?,
    };
    let cell = CellRequest { code: body.code, env_vars: body.env_vars.unwrap_or_default(), cwd: None };
    let events = sandbox.session.execute(&context, cell).await?;
    Ok(answer_with(events, move || sandbox.session.is_over()))
}

/// Answers with what a cell does, as it does it.
pub(crate) fn tell_cell(events: mpsc::Receiver<CellEvent>) -> Response {
    answer_with(events, || false)
}

/// The same, broken off where the cell ends because its sandbox is gone: clients then ask whether it is, and say so.
fn answer_with(events: mpsc::Receiver<CellEvent>, is_gone: impl Fn() -> bool + Send + 'static) -> Response {
    let (parts, body) = Parts::channel();
    tokio::spawn(tell(events, parts, is_gone));
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

/// The context of a language for cells that name none: made for the first of them.
async fn usual(sandbox: &Sandbox, language: Language) -> Result<Arc<CodeContext>, SessionError> {
    let mut known = sandbox.usual_contexts.lock().await;
    if let Some(context) = known.get(language.name()).and_then(|id| sandbox.session.context(id)) {
        return Ok(context);
    }
    let id = usual_id(language);
    let context = sandbox.session.add_context(id.clone(), language, None).await?;
    known.insert(language.name(), id);
    Ok(context)
}

/// Tells a client what a cell does. A client that goes away interrupts it.
async fn tell(mut events: mpsc::Receiver<CellEvent>, parts: mpsc::Sender<std::io::Result<Bytes>>, is_gone: impl Fn() -> bool) {
    loop {
        let heard = tokio::select! {
            heard = tokio::time::timeout(KEEPALIVE, events.recv()) => heard,
            () = parts.closed() => return,
        };
        if let Ok(None | Some(CellEvent::Error { .. } | CellEvent::Ended)) = &heard
            && is_gone()
        {
            let broken = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return parts.send(Err(broken)).await.unwrap_or_default();
        }
        let (line, is_last) = match heard {
            Err(_) => (Line::Keepalive, false),
            Ok(None) => return,
            Ok(Some(event)) => (Line::of(event.clone(), &rfc3339(SystemTime::now())), event == CellEvent::Ended),
        };
        let Ok(bytes) = line.to_bytes() else { return };
        if parts.send(Ok(Bytes::from(bytes))).await.is_err() || is_last {
            return;
        }
    }
}
