//! Code contexts of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::cells::{CellRequest, Language};
use ringfence_control::{CodeContext, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{refused, standing};
use crate::asked::{Asked, By, Filter, Name, NoFilter, Nothing, Two, Wanted};
use crate::bounded::{Table, Text};
use crate::e2b::{new_token, tell_cell};
use crate::problem::Problem;
use crate::reply::json;
use crate::serving::Serving;

/// A code context that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextBody {
    /// `python` if not named.
    #[schemars(extend("enum" = ["python", "javascript", "typescript", "bash", null]))]
    language: Option<Text<1, 16>>,
    /// The folder in which it begins; the home if not named.
    #[schemars(regex(pattern = "^[^\\u0000]+$"))]
    cwd: Option<Text<1, 4095>>,
}

impl Wanted for ContextBody {
    const MOST_BYTES: usize = 16 << 10;
    const IS_OPTIONAL: bool = true;
}

/// A code context.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextView {
    /// Its name.
    context: String,
    /// Its language.
    language: String,
    /// The folder in which it began.
    cwd: String,
}

impl ContextView {
    fn of(context: &CodeContext) -> Self {
        Self { context: context.id.clone(), language: context.language.name().to_owned(), cwd: context.cwd.clone() }
    }
}

/// Code contexts of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextList {
    /// In the order of their names.
    contexts: Vec<ContextView>,
}

/// List the code contexts of a session
#[utoipa::path(get, path = "/v1/sessions/{session}/contexts", operation_id = "list_contexts", tag = "contexts",
    params(("session" = String, Path, description = "The session")),
    responses((status = 200, description = "The contexts", content_type = "application/json", body = ref("#/components/schemas/ContextList"))))]
pub(super) async fn list(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let contexts = session.contexts().iter().map(|context| ContextView::of(context)).collect();
    json(&serving, StatusCode::OK, &ContextList { contexts })
}

/// Start a code context
#[utoipa::path(post, path = "/v1/sessions/{session}/contexts", operation_id = "add_context", tag = "contexts",
    params(("session" = String, Path, description = "The session")),
    request_body(content = ref("#/components/schemas/ContextBody"), content_type = "application/json"),
    responses((status = 201, description = "It takes cells", content_type = "application/json", body = ref("#/components/schemas/ContextView"))))]
pub(super) async fn add(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    asked: Asked<ContextBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let name = asked.body.language.as_ref().map_or("python", |language| &language.0);
    let language = Language::parse(name).map_err(|error| Problem::value("language", error, "name one of those"))?;
    let id = new_token().map_err(|error| serving.failed(&error))?[..32].to_owned();
    let cwd = asked.body.cwd.map(|cwd| cwd.0);
    let context = session.add_context(id, language, cwd).await.map_err(|error| refused(&serving, error))?;
    json(&serving, StatusCode::CREATED, &ContextView::of(&context))
}

fn found(session: &Session, name: &str) -> Result<Arc<CodeContext>, Problem> {
    session.context(name).ok_or_else(|| Problem::not_found("context", name))
}

/// End a code context
#[utoipa::path(delete, path = "/v1/sessions/{session}/contexts/{context}", operation_id = "remove_context", tag = "contexts",
    params(("session" = String, Path, description = "The session"), ("context" = String, Path, description = "The context")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn remove(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, context): Two,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<StatusCode, Problem> {
    let session = standing(&serving, &caller, &session)?;
    session.remove_context(&*found(&session, &context)?).map_err(|error| refused(&serving, error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin a code context anew
///
/// Without its state; a cell that runs ends with an error.
#[utoipa::path(post, path = "/v1/sessions/{session}/contexts/{context}/restart", operation_id = "restart_context", tag = "contexts",
    params(("session" = String, Path, description = "The session"), ("context" = String, Path, description = "The context")),
    responses((status = 200, description = "It takes cells", content_type = "application/json", body = ref("#/components/schemas/ContextView"))))]
pub(super) async fn restart(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, context): Two,
    asked: Asked<Nothing>,
) -> Result<Response, Problem> {
    let Nothing {} = asked.body;
    let session = standing(&serving, &caller, &session)?;
    let context = found(&session, &context)?;
    session.restart_context(&context).await.map_err(|error| refused(&serving, error))?;
    json(&serving, StatusCode::OK, &ContextView::of(&context))
}

/// Interrupt the cell that runs in a code context
#[utoipa::path(post, path = "/v1/sessions/{session}/contexts/{context}/interrupt", operation_id = "interrupt_context", tag = "contexts",
    params(("session" = String, Path, description = "The session"), ("context" = String, Path, description = "The context")),
    responses((status = 200, description = "It is interrupted", content_type = "application/json", body = ref("#/components/schemas/ContextView"))))]
pub(super) async fn interrupt(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, context): Two,
    asked: Asked<Nothing>,
) -> Result<Response, Problem> {
    let Nothing {} = asked.body;
    let session = standing(&serving, &caller, &session)?;
    let context = found(&session, &context)?;
    session.interrupt(&context).map_err(|error| refused(&serving, error))?;
    json(&serving, StatusCode::OK, &ContextView::of(&context))
}

/// A cell of code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellBody {
    /// The code.
    code: Text<0, 1_000_000>,
    /// Variables for this cell alone.
    #[serde(default)]
    env: Table<Text<0, 131_071>, 256>,
}

impl Wanted for CellBody {
    const MOST_BYTES: usize = 2 << 20;
}

/// Execute a cell
///
/// Its turn comes after those that were given before. The answer is one JSON object a line, as it happens: `number_of_executions`, `stdout`, `stderr`,
/// `result`, `error`, `keepalive`, `end_of_execution`. A client that goes away interrupts the cell.
#[utoipa::path(post, path = "/v1/sessions/{session}/contexts/{context}/execute", operation_id = "execute_cell", tag = "contexts",
    params(("session" = String, Path, description = "The session"), ("context" = String, Path, description = "The context")),
    request_body(content = ref("#/components/schemas/CellBody"), content_type = "application/json"),
    responses((status = 200, description = "What it does", content_type = "application/x-ndjson", body = String)))]
pub(super) async fn execute(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, context): Two,
    asked: Asked<CellBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let context = found(&session, &context)?;
    let env_vars: BTreeMap<String, String> = asked.body.env.0.into_iter().map(|(name, value)| (name, value.0)).collect();
    let cell = CellRequest { code: asked.body.code.0, env_vars, cwd: None };
    let events = session.execute(&context, cell).await.map_err(|error| refused(&serving, error))?;
    Ok(tell_cell(events))
}
