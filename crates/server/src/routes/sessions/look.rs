//! What there is of sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::standing;
use crate::asked::{By, Filter, Name, NoFilter};
use crate::e2b::Sandbox;
use crate::moment::rfc3339;
use crate::problem::Problem;
use crate::reply::json;
use crate::serving::Serving;

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionView {
    /// Its name, which is that of its run.
    session: String,
    /// The agent.
    agent: String,
    /// The profile.
    profile: String,
    /// Whom its commands run as.
    user: String,
    /// The folder in which they start.
    home: String,
    /// When it stood, RFC 3339.
    started_at: String,
    /// When it ends by itself, RFC 3339.
    ends_at: String,
    /// Words of the client's own.
    metadata: BTreeMap<String, String>,
    /// Processor time so far, milliseconds.
    cpu_ms: u64,
    /// Most memory at once so far, bytes.
    memory_peak_bytes: u64,
    /// Commands that run.
    commands_running: u64,
    /// What must be sent as `E2B-Traffic-Access-Token` to reach a port at `http://PORT-SESSION.localhost`; told when it is made and shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    port_token: Option<String>,
    /// Whether its ports are open to everyone who knows its name.
    public_ports: bool,
}

impl SessionView {
    pub(super) fn of(session: &Session, sandbox: Option<&Sandbox>) -> Self {
        let usage = session.usage();
        Self {
            session: session.run.to_string(),
            agent: session.about.agent.clone(),
            profile: session.about.profile.clone(),
            user: session.user.to_string(),
            home: session.user.home(),
            started_at: rfc3339(session.started_at),
            ends_at: rfc3339(session.ends_at()),
            metadata: session.about.metadata.clone(),
            cpu_ms: u64::try_from(usage.cpu.as_millis()).unwrap_or(u64::MAX),
            memory_peak_bytes: usage.memory_peak_bytes,
            commands_running: session.commands().iter().filter(|command| !command.has_ended()).count() as u64,
            port_token: sandbox.map(|sandbox| sandbox.traffic_token.clone()),
            public_ports: sandbox.is_some_and(|sandbox| sandbox.is_public),
        }
    }
}

/// Sessions that stand.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionList {
    /// The oldest first.
    sessions: Vec<SessionView>,
}

/// Which sessions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionQuery {
    profile: Option<String>,
    agent: Option<String>,
}

/// List sessions that stand, the oldest first
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions", tag = "sessions",
    params(
        ("profile" = Option<String>, Query, description = "Only those with this profile"),
        ("agent" = Option<String>, Query, description = "Only those of this agent")),
    responses((status = 200, description = "The sessions", content_type = "application/json", body = ref("#/components/schemas/SessionList"))))]
pub(super) async fn list(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Filter(query): Filter<SessionQuery>,
) -> Result<Response, Problem> {
    let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
    let own = serving.sessions.all().into_iter().filter(|session| session.about.tenant == caller.tenant);
    let fitting = own.filter(|session| is(&query.profile, &session.about.profile) && is(&query.agent, &session.about.agent));
    json(&serving, StatusCode::OK, &SessionList { sessions: fitting.map(|session| SessionView::of(&session, None)).collect() })
}

/// Show a session
#[utoipa::path(get, path = "/v1/sessions/{session}", operation_id = "show_session", tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    responses((status = 200, description = "The session", content_type = "application/json", body = ref("#/components/schemas/SessionView"))))]
pub(super) async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let sandbox = serving.sandboxes.find(session.run.as_str());
    json(&serving, StatusCode::OK, &SessionView::of(&session, sandbox.as_deref()))
}
