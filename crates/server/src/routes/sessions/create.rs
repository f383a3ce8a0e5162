//! A session is asked for, given time and ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{About, RunRequest, SessionRequest};
use ringfence_evidence::ClosedBy;
use ringfence_policy::StateName;
use ringfence_store::Caller;
use schemars::JsonSchema;
use serde::Deserialize;

use super::look::SessionView;
use super::{refused, standing};
use crate::asked::{Asked, By, Filter, Name, NoFilter, Wanted};
use crate::bounded::{Few, Table, Text};
use crate::e2b::Sandbox;
use crate::idempotency::once;
use crate::problem::Problem;
use crate::reply::{json, located};
use crate::routes::runs::RunBody;
use crate::routes::states::found;
use crate::serving::Serving;

/// The profile of a session that names none.
const USUAL_PROFILE: &str = "base";
/// How long a session goes on if nobody says: seconds.
const USUAL_SECONDS: u64 = 300;

/// A session that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionBody {
    /// Class of work: the name of a profile; `base` if not named.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9-]{0,63}$"))]
    profile: Option<Text<1, 64>>,
    /// The agent that the session belongs to, one of the tenant's; its first one if not named.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
    agent: Option<Text<1, 64>>,
    /// Seconds until it ends by itself; 300 if not named.
    #[schemars(range(min = 1, max = 315_360_000))]
    timeout: Option<u64>,
    /// Variables that all its commands get.
    #[serde(default)]
    env: Table<Text<0, 131_071>, 256>,
    /// Limits to lower, such as `{"memory": "256MiB"}`.
    #[serde(default)]
    limits: Table<Text<1, 64>, 16>,
    /// Destinations to reach, such as `api.example.com:443`; they must be inside the bound.
    #[serde(default)]
    allow: Few<Text<1, 512>, 256>,
    /// No network and no packages, whatever the bound is.
    #[serde(default)]
    without_network: bool,
    /// Artifacts to collect when it ends, as globs relative to the workspace.
    #[serde(default)]
    exports: Few<Text<1, 4096>, 256>,
    /// At least this tier.
    #[schemars(extend("enum" = ["process", "gvisor", "microvm", null]))]
    tier: Option<Text<1, 16>>,
    /// Where to keep what it writes; in memory if not named.
    #[schemars(extend("enum" = ["memory", "disk", null]))]
    storage: Option<Text<1, 16>>,
    /// How sensitive the work is, at least.
    #[schemars(extend("enum" = ["public", "internal", "confidential", "restricted", null]))]
    sensitivity: Option<Text<1, 16>>,
    /// State by name: begins with what the last run left under it, and leaves its own.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
    state: Option<Text<1, 64>>,
    /// The id of what was kept, to begin with.
    #[schemars(regex(pattern = "^[0-9a-hjkmnp-tv-z]{26}$"))]
    from: Option<Text<26, 26>>,
    /// Words of the client's own, by which it finds the session again.
    #[serde(default)]
    metadata: Table<Text<0, 1024>, 64>,
    /// Whether its ports are open to everyone who knows its name; with its port token only if not.
    #[serde(default)]
    public_ports: bool,
}

impl Wanted for SessionBody {
    const MOST_BYTES: usize = 1 << 20;
    const IS_OPTIONAL: bool = true;
}

impl SessionBody {
    /// As for a run, but for its command.
    fn into_run(self) -> (RunBody, BTreeMap<String, String>) {
        let metadata = self.metadata.0.into_iter().map(|(name, value)| (name, value.0)).collect();
        let run = RunBody {
            profile: self.profile.or_else(|| Some(Text(USUAL_PROFILE.into()))),
            agent: self.agent,
            env: self.env,
            limits: self.limits,
            allow: self.allow,
            exports: self.exports,
            tier: self.tier,
            storage: self.storage,
            sensitivity: self.sensitivity,
            ..RunBody::default()
        };
        (run, metadata)
    }
}

/// Make a session
///
/// Answers once it stands. What policy refuses is a problem with the rule; the refused run is on record all the same.
#[utoipa::path(post, path = "/v1/sessions", operation_id = "create_session", tag = "sessions",
    request_body(content = ref("#/components/schemas/SessionBody"), content_type = "application/json"),
    responses((status = 201, description = "It stands", content_type = "application/json", body = ref("#/components/schemas/SessionView")), (status = 422)))]
pub(super) async fn create(State(serving): State<Arc<Serving>>, By(caller): By, asked: Asked<SessionBody>) -> Result<Response, Problem> {
    let (server, who, body) = (serving.clone(), caller.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let sandbox = make(&server, &who, body).await?;
        server.metrics.count("sessions", "made");
        let view = SessionView::of(&sandbox.session, Some(&sandbox));
        Ok(located(json(&server, StatusCode::CREATED, &view)?, &format!("/v1/sessions/{}", sandbox.id())))
    })
    .await
}

async fn make(serving: &Arc<Serving>, caller: &Caller, body: SessionBody) -> Result<Arc<Sandbox>, Problem> {
    let (seconds, without_network, is_public) = (body.timeout.unwrap_or(USUAL_SECONDS), body.without_network, body.public_ports);
    let (state, from) = (kept_name(body.state.as_ref())?, body.from.as_ref().map(|from| from.0.clone()));
    let (run, metadata) = body.into_run();
    let who = caller.clone();
    let mut run = serving
        .blocking(move |serving| {
            let begins_with = from.map(|from| found(serving, &who, &from)).transpose()?;
            Ok(RunRequest { from: begins_with.map(|state| state.id), ..run.ask(serving, &who, Vec::new())? })
        })
        .await?;
    run.state = state;
    run.without_network = without_network;
    let about =
        About { tenant: caller.tenant.clone(), agent: run.agent.to_string(), profile: run.profile.profile.name.to_string(), metadata };
    let template = about.profile.clone();
    let request = SessionRequest { run, time: Some(Duration::from_secs(seconds)), about };
    let session = serving.sessions.create(request).await.map_err(|error| refused(serving, error))?;
    Sandbox::known(serving, session, template, is_public).map_err(|error| serving.failed(&error))
}

/// The name of a state.
pub(crate) fn kept_name(text: Option<&Text<1, 64>>) -> Result<Option<StateName>, Problem> {
    let parse = |text: &Text<1, 64>| text.0.parse().map_err(|error| Problem::value("state", error, "such as `notebook-1`"));
    text.map(parse).transpose()
}

/// How long a session may go on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeBody {
    /// Seconds from now.
    #[schemars(range(min = 1, max = 315_360_000))]
    timeout: u64,
}

impl Wanted for TimeBody {
    const MOST_BYTES: usize = 4 << 10;
}

/// Give a session time
///
/// From now on, whether that is longer or shorter than before, but never past the wall limit of its run.
#[utoipa::path(post, path = "/v1/sessions/{session}/timeout", operation_id = "give_session_time", tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    request_body(content = ref("#/components/schemas/TimeBody"), content_type = "application/json"),
    responses((status = 200, description = "The session, with the moment of its end", content_type = "application/json", body = ref("#/components/schemas/SessionView"))))]
pub(super) async fn give_time(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    asked: Asked<TimeBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    if asked.body.timeout == 0 {
        return Err(Problem::value("timeout", "no time at all", "end the session with DELETE"));
    }
    session.set_left(Duration::from_secs(asked.body.timeout)).map_err(|error| refused(&serving, error))?;
    json(&serving, StatusCode::OK, &SessionView::of(&session, serving.sandboxes.find(session.run.as_str()).as_deref()))
}

/// End a session
///
/// Answers once nothing of it runs, what was named has left, and its record is sealed.
#[utoipa::path(delete, path = "/v1/sessions/{session}", operation_id = "close_session", tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    responses((status = 200, description = "How it went", content_type = "application/json", body = ref("#/components/schemas/RunReport"))))]
pub(super) async fn close(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let report = session.close(ClosedBy::Request).await;
    let report = report.ok_or_else(|| serving.failed(&format!("the record of session {} could not be sealed", session.run)))?;
    json(&serving, StatusCode::OK, &*report)
}
