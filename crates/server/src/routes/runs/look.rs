//! Runs as their callers see them: in a list, one by one, with what left them.

use std::fs;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::RunReport;
use ringfence_evidence::{EVENTS_FILE, Event, RunEnd, read_chain};
use ringfence_policy::{AgentId, ProfileName};
use ringfence_store::{ArtifactRow, Caller, Index, RunFilter, RunId, RunRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::seen;
use crate::asked::{By, Filter, Name, NoFilter, named};
use crate::problem::{Code, Problem, shortened};
use crate::reply::json;
use crate::serving::{Serving, viewer};
use crate::work::RunUnderWay;

/// Runs in one answer.
const MOST: u32 = 1000;
/// Runs in one answer, if nothing is said.
const USUAL: u32 = 50;
/// Where a run can stand: under way, or how it ended.
pub(crate) const STATES: &[&str] = &["running", "exited", "signaled", "limit", "refused", "closed", "failed"];

/// Which runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunQuery {
    limit: Option<u32>,
    before: Option<String>,
    agent: Option<String>,
    profile: Option<String>,
    state: Option<String>,
}

/// Runs, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunList {
    /// The runs.
    runs: Vec<RunItem>,
    /// What to give as `before` for those that come after these; there are none if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RunItem {
    /// The run.
    run: String,
    /// `running`, or how it ended: `exited`, `signaled`, `limit`, `refused` or `failed`.
    state: String,
    /// The agent.
    agent: String,
    /// The profile.
    profile: String,
    /// When it was requested, RFC 3339 in UTC.
    started_at: String,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Digest of its sealed statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
}

/// All about a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    #[serde(flatten)]
    item: RunItem,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<RunEnd>,
    /// Its report with what it printed, for a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RunReport>")]
    report: Option<Box<RawValue>>,
}

/// What left a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArtifactList {
    /// The artifacts.
    artifacts: Vec<ArtifactItem>,
}

/// Something that left a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArtifactItem {
    /// Its path in the workspace; `%` and bytes that are not UTF-8 stand as `%XX`.
    path: String,
    /// Bytes.
    bytes: u64,
    /// Digest of its content, by which it is fetched.
    sha256: String,
}

impl RunItem {
    fn of_row(row: RunRow) -> Self {
        Self {
            run: row.run,
            state: row.end_kind,
            agent: row.agent,
            profile: row.profile,
            started_at: row.started_at,
            ended_at: Some(row.ended_at),
            evidence: Some(row.evidence),
        }
    }

    fn of_work((run, under_way): (String, RunUnderWay)) -> Self {
        let RunUnderWay { agent, profile, started_at, .. } = under_way;
        Self { run, state: "running".into(), agent, profile, started_at, ended_at: None, evidence: None }
    }
}

/// The word for how a run ended.
pub(super) fn word_of(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Exited { .. } => "exited",
        RunEnd::Signaled { .. } => "signaled",
        RunEnd::Limit { .. } => "limit",
        RunEnd::Refused { .. } => "refused",
        RunEnd::Closed { .. } => "closed",
        RunEnd::Failed { .. } => "failed",
    }
}

/// List runs, the newest first
#[utoipa::path(get, path = "/v1/runs", operation_id = "list_runs", tag = "runs",
    params(
        ("limit" = Option<u32>, Query, description = "At most so many", minimum = 1, maximum = 1000),
        ("before" = Option<String>, Query, description = "Only those that were requested before this run"),
        ("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("profile" = Option<String>, Query, description = "Only those with this profile"),
        ("state" = Option<String>, Query, description = "Only those that stand like this")),
    responses((status = 200, description = "The runs", content_type = "application/json", body = ref("#/components/schemas/RunList"))))]
pub(super) async fn list(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Filter(query): Filter<RunQuery>,
) -> Result<Response, Problem> {
    query.check()?;
    let runs = serving.blocking(move |serving| find(serving, &caller, &query)).await?;
    json(&serving, StatusCode::OK, &runs)
}

impl RunQuery {
    fn check(&self) -> Result<(), Problem> {
        let wrong = |what: &str, value: &str| {
            let detail = format!("{what}: `{}` is not possible", shortened(value));
            Err(Problem::new(Code::BadQuery, detail, "see /v1/openapi.json for the parameters that there are"))
        };
        let is_run = |text: &String| text.parse::<RunId>().is_ok();
        let is_possible = [
            ("state", &self.state, self.state.as_ref().is_none_or(|text| STATES.contains(&text.as_str()))),
            ("before", &self.before, self.before.as_ref().is_none_or(is_run)),
            ("agent", &self.agent, self.agent.as_ref().is_none_or(|text| text.parse::<AgentId>().is_ok())),
            ("profile", &self.profile, self.profile.as_ref().is_none_or(|text| text.parse::<ProfileName>().is_ok())),
        ];
        if let Some((what, text, _)) = is_possible.into_iter().find(|(_, _, is_possible)| !is_possible) {
            return wrong(what, text.as_deref().unwrap_or_default());
        }
        match self.limit {
            Some(limit) if !(1..=MOST).contains(&limit) => wrong("limit", &limit.to_string()),
            Some(_) | None => Ok(()),
        }
    }

    fn wants(&self, item: &RunItem) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        is(&self.agent, &item.agent)
            && is(&self.profile, &item.profile)
            && is(&self.state, &item.state)
            && self.before.as_ref().is_none_or(|before| item.run < *before)
    }
}

fn find(serving: &Serving, caller: &Caller, query: &RunQuery) -> Result<RunList, Problem> {
    let most = query.limit.unwrap_or(USUAL);
    // What is under way is looked at first: a run that ends meanwhile is in the index by then.
    let under_way = serving.all_under_way().into_iter().filter(|(_, run)| run.tenant == caller.tenant);
    let mut runs: Vec<RunItem> = under_way.map(RunItem::of_work).filter(|item| query.wants(item)).collect();
    if query.state.as_deref() != Some("running") {
        let filter = RunFilter {
            agent: query.agent.clone(),
            profile: query.profile.clone(),
            end_kind: query.state.clone(),
            before: query.before.clone(),
            most: most + 1,
        };
        let sealed = index(serving)?.runs_of(&viewer(caller), &filter).map_err(|error| serving.failed(&error))?;
        runs.retain(|running| sealed.iter().all(|row| row.run != running.run));
        runs.extend(sealed.into_iter().map(RunItem::of_row));
    }
    runs.sort_by(|one, other| other.run.cmp(&one.run));
    let more = runs.len() > most as usize;
    runs.truncate(most as usize);
    Ok(RunList { next: runs.last().filter(|_| more).map(|last| last.run.clone()), runs })
}

/// Show a run
#[utoipa::path(get, path = "/v1/runs/{run}", operation_id = "show_run", tag = "runs",
    params(("run" = String, Path, description = "The run")),
    responses((status = 200, description = "The run", content_type = "application/json", body = ref("#/components/schemas/RunView"))))]
pub(super) async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(run): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let view = serving.blocking(move |serving| view(serving, &caller, &run)).await?;
    json(&serving, StatusCode::OK, &view)
}

fn view(serving: &Serving, caller: &Caller, name: &str) -> Result<RunView, Problem> {
    let run: RunId = named("run", name)?;
    if let Some(under_way) = serving.under_way(run.as_str()).filter(|run| viewer(caller).sees(Some(&run.tenant))) {
        return Ok(RunView { item: RunItem::of_work((run.to_string(), under_way)), end: None, report: None });
    }
    let row = sealed(serving, caller, &run)?.ok_or_else(|| Problem::not_found("run", name))?;
    let report = serving.clients(|clients| clients.report(run.as_str()))?;
    let report = report.map(RawValue::from_string).transpose().map_err(|error| serving.failed(&error))?;
    Ok(RunView { end: Some(end_of(serving, &run)?), item: RunItem::of_row(row), report })
}

/// A sealed run that this caller sees.
pub(super) fn sealed(serving: &Serving, caller: &Caller, run: &RunId) -> Result<Option<RunRow>, Problem> {
    index(serving)?.run_of(&viewer(caller), run.as_str()).map_err(|error| serving.failed(&error))
}

fn index(serving: &Serving) -> Result<Index, Problem> {
    Index::open(serving.home()).map_err(|error| serving.failed(&error))
}

fn end_of(serving: &Serving, run: &RunId) -> Result<RunEnd, Problem> {
    let path = serving.home().runs().join(run.as_str()).join(EVENTS_FILE);
    let lines = fs::read(path).map_err(|error| serving.failed(&error))?;
    let lines = read_chain(&lines).map_err(|error| serving.failed(&error))?;
    match lines.into_iter().next_back().map(|line| line.event) {
        Some(Event::RunEnded { end }) => Ok(end),
        _ => Err(serving.failed(&format!("the record of run {run} has no end"))),
    }
}

/// List what left a run
#[utoipa::path(get, path = "/v1/runs/{run}/artifacts", operation_id = "list_run_artifacts", tag = "runs",
    params(("run" = String, Path, description = "The run")),
    responses((status = 200, description = "What left it; nothing while it goes on", content_type = "application/json", body = ref("#/components/schemas/ArtifactList"))))]
pub(super) async fn artifacts(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(run): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let made = serving.blocking(move |serving| {
        let run = seen(serving, &caller, &run)?;
        index(serving)?.artifacts(Some(run.as_str())).map_err(|error| serving.failed(&error))
    });
    let artifacts = made.await?.into_iter().map(|ArtifactRow { path, bytes, sha256, .. }| ArtifactItem { path, bytes, sha256 }).collect();
    json(&serving, StatusCode::OK, &ArtifactList { artifacts })
}
