//! Asking for a run: laid out, recorded, and then performed on a thread of its own, whether or not somebody waits for it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{Attachments, OutputTo, Progress, Recorded, RunReport};
use ringfence_store::{Caller, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hand_over::{HandedOver, refused};
use super::look::word_of;
use super::request::RunBody;
use crate::asked::{Asked, By, Filter};
use crate::idempotency::once;
use crate::problem::Problem;
use crate::reply::{json, located};
use crate::serving::Serving;
use crate::work::Task;

/// Whether to wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(default)]
    wait: bool,
}

/// A run that is under way.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Begun {
    /// The run.
    run: String,
    /// `running`.
    state: &'static str,
}

impl Begun {
    pub(super) fn of(run: &RunId) -> Self {
        Self { run: run.to_string(), state: "running" }
    }
}

/// A run that is on record, and what it needs until it is over.
struct Started {
    recorded: Recorded,
    task: Task,
    _handed_over: HandedOver,
}

/// Ask for a run
///
/// Goes the same line as the command line: recorded, decided, performed, sealed. A run that policy refuses is a run that ended: its report says by which rule.
/// With `wait=true` the answer comes when it is over, with its report; the run goes on although the client goes away.
#[utoipa::path(post, path = "/v1/runs", operation_id = "create_run", tag = "runs",
    params(("wait" = Option<bool>, Query, description = "Answer when the run is over")),
    request_body(content = ref("#/components/schemas/RunBody"), content_type = "application/json"),
    responses(
        (status = 201, description = "The run is over", content_type = "application/json", body = ref("#/components/schemas/RunReport")),
        (status = 202, description = "The run is on record and goes on", content_type = "application/json", body = ref("#/components/schemas/Begun"))))]
pub(super) async fn create(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Filter(Wait { wait }): Filter<Wait>,
    asked: Asked<RunBody>,
) -> Result<Response, Problem> {
    let (server, who, body) = (serving.clone(), caller.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let started = server.blocking(move |serving| start(serving, &who, &body)).await?;
        let run = started.recorded.run().clone();
        let place = format!("/v1/runs/{run}");
        let performing = server.clone();
        let performed = tokio::spawn(async move { performing.blocking(move |serving| perform(serving, started)).await });
        if !wait {
            return Ok(located(json(&server, StatusCode::ACCEPTED, &Begun::of(&run))?, &place));
        }
        let report = performed.await.map_err(|panic| server.failed(&panic))??;
        Ok(located(json(&server, StatusCode::CREATED, &report)?, &place))
    })
    .await
}

fn start(serving: &Arc<Serving>, caller: &Caller, body: &RunBody) -> Result<Started, Problem> {
    let task = serving.work.begin(&caller.tenant)?;
    let mut request = body.request(serving, caller)?;
    let handed_over = HandedOver::lay_out(serving, caller, body, &mut request)?;
    let recorded = serving.runner.record(&request).map_err(|error| refused(serving, &error))?;
    task.is_run(recorded.run().as_str(), &caller.tenant, recorded.agent().as_str(), request.profile.profile.name.as_str());
    Ok(Started { recorded, task, _handed_over: handed_over })
}

fn perform(serving: &Arc<Serving>, started: Started) -> Result<RunReport, Problem> {
    let Started { recorded, task, _handed_over } = started;
    let attachments = Attachments { output: OutputTo::Report, progress: &mut Untold, cancel: Some(task.stop()) };
    let report = serving.runner.go_on_with(recorded, attachments).map_err(|error| serving.failed(&error))?;
    serving.metrics.count("runs", word_of(&report.end));
    if let Some(warning) = &report.warning {
        serving.log(warning);
    }
    let text = serde_json::to_string(&report).map_err(|error| serving.failed(&error))?;
    serving.clients(|clients| clients.keep_report(&report.run, &text))?;
    Ok(report)
}

/// Nobody watches a run of a server; its events are on record.
pub(crate) struct Untold;

impl Progress for Untold {
    fn tell(&mut self, _: &str, _: u64) {}

    fn warn(&mut self, _: &str) {}
}
