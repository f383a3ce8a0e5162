//! What there is of sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use ringfence_policy::LimitKey;
use serde::Serialize;
use serde_json::{Value, json};

use super::begin::Asked;
use super::create::domain;
use super::keep::Kept;
use super::{keep, owned};
use crate::asked::By;
use crate::e2b::ENVD_VERSION;
use crate::e2b::envd::query;
use crate::e2b::error::E2bError;
use crate::e2b::sandboxes::Sandbox;
use crate::moment::rfc3339;
use crate::serving::Serving;
use ringfence_store::{StateKind, StateRow};

/// What is told of a sandbox, in lists and alone.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    sandbox: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    alias: String,
    started_at: String,
    end_at: String,
    envd_version: &'static str,
    cpu_count: u64,
    #[serde(rename = "memoryMB")]
    memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u64,
    state: &'static str,
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    envd_access_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    allow_internet_access: bool,
    network: Value,
    lifecycle: Value,
}

/// The version in the name of a response's header that says where the next page begins.
const NEXT: &str = "x-next-token";

impl Detail {
    fn of(sandbox: &Sandbox) -> Self {
        let session = &sandbox.session;
        let limit = |key| session.allowed.limits.get(key);
        let megabytes = |key| limit(key).map_or(0, |bytes| bytes >> 20);
        Self {
            template: sandbox.template.clone(),
            sandbox: sandbox.id().to_owned(),
            client: "ringfence",
            alias: sandbox.template.clone(),
            started_at: rfc3339(session.started_at),
            end_at: rfc3339(session.ends_at()),
            envd_version: ENVD_VERSION,
            cpu_count: cpus(sandbox),
            memory_mb: megabytes(LimitKey::Memory),
            disk_size_mb: megabytes(LimitKey::Disk),
            state: "running",
            metadata: session.about.metadata.clone(),
            envd_access_token: None,
            domain: None,
            allow_internet_access: !session.allowed.network.is_none(),
            network: network(sandbox),
            lifecycle: lifecycle(&sandbox.asked),
        }
    }

    /// One that is paused: its limits are those that it had.
    fn paused(state: &StateRow, kept: &Kept) -> Self {
        Self {
            template: kept.template.clone(),
            sandbox: kept.sandbox.clone(),
            client: "ringfence",
            alias: kept.template.clone(),
            started_at: kept.started_at.clone(),
            end_at: state.created_at.clone(),
            envd_version: ENVD_VERSION,
            cpu_count: 1,
            memory_mb: 0,
            disk_size_mb: state.bytes >> 20,
            state: "paused",
            metadata: state.said.metadata.clone(),
            envd_access_token: None,
            domain: None,
            allow_internet_access: false,
            network: json!({}),
            lifecycle: lifecycle(kept.asked()),
        }
    }
}

/// What becomes of it when its time is up.
fn lifecycle(asked: &Asked) -> Value {
    let on_timeout = if asked.pauses_at_timeout { "pause" } else { "kill" };
    json!({ "autoResume": asked.resumes_by_itself, "onTimeout": on_timeout })
}

/// What it reaches, as it was granted.
fn network(sandbox: &Sandbox) -> Value {
    let allowed = &sandbox.session.allowed.network;
    let listed = if allowed.is_none() { Vec::new() } else { vec![allowed.to_string()] };
    json!({ "allowOut": listed, "denyOut": ["0.0.0.0/0"], "allowPublicTraffic": sandbox.is_public })
}

fn cpus(sandbox: &Sandbox) -> u64 {
    let granted = sandbox.session.allowed.limits.get(LimitKey::Cpus).map(|milli| milli.div_ceil(1000));
    granted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)).max(1)
}

pub(super) async fn detail(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, E2bError> {
    let Ok(sandbox) = owned(&serving, &caller, &id) else {
        let (state, kept) = keep::paused(&serving, &caller.tenant, &id).await?.ok_or_else(|| E2bError::no_sandbox(&id))?;
        return Ok(axum::Json(Detail::paused(&state, &kept)).into_response());
    };
    let detail = Detail { envd_access_token: sandbox.token.clone(), domain: Some(domain(&headers)), ..Detail::of(&sandbox) };
    Ok(axum::Json(detail).into_response())
}

/// Sandboxes on one page at most.
const PAGE: usize = 100;

/// Of this tenant's, those that fit; the newest first unless the query says otherwise.
pub(super) async fn list(State(serving): State<Arc<Serving>>, By(caller): By, uri: Uri) -> Result<Response, E2bError> {
    let filter = Filter::of(&query(&uri))?;
    let running = serving.sandboxes.all().into_iter().filter(|sandbox| sandbox.session.about.tenant == caller.tenant);
    let mut fitting: Vec<Detail> = running.map(|sandbox| Detail::of(&sandbox)).filter(|_| filter.is_running).collect();
    if filter.is_paused {
        let kept = keep::all(&serving, &caller.tenant, StateKind::Paused).await?;
        fitting.extend(kept.iter().map(|(state, kept)| Detail::paused(state, kept)));
    }
    fitting.retain(|sandbox| filter.fits(sandbox));
    fitting.sort_by(|one, other| one.started_at.cmp(&other.started_at).then_with(|| one.sandbox.cmp(&other.sandbox)));
    if !filter.is_ascending {
        fitting.reverse();
    }
    let begins =
        filter.after.as_ref().map_or(0, |after| fitting.iter().position(|s| s.sandbox == *after).map_or(fitting.len(), |at| at + 1));
    let left = fitting.len().saturating_sub(begins);
    let page: Vec<Detail> = fitting.into_iter().skip(begins).take(filter.limit).collect();
    let next = (page.len() < left).then(|| page.last().map(|last| last.sandbox.clone())).flatten();
    let mut response = axum::Json(page).into_response();
    if let Some(Ok(next)) = next.map(|next| HeaderValue::from_str(&next)) {
        response.headers_mut().insert(NEXT, next);
    }
    Ok(response)
}

struct Filter {
    metadata: BTreeMap<String, String>,
    is_running: bool,
    is_paused: bool,
    is_ascending: bool,
    after: Option<String>,
    template: Option<String>,
    limit: usize,
}

impl Filter {
    fn of(query: &BTreeMap<String, String>) -> Result<Self, E2bError> {
        let metadata = query.get("metadata").map(|text| crate::e2b::envd::pairs(text)).unwrap_or_default();
        let states = query.get("state").map(String::as_str).unwrap_or("running,paused");
        if let Some(other) = states.split(',').find(|state| !["running", "paused", ""].contains(state)) {
            return Err(E2bError::bad(format!("state: `{}` is neither `running` nor `paused`", other.escape_debug())));
        }
        let limit = query.get("limit").map_or(Some(PAGE), |limit| limit.parse().ok().filter(|limit| (1..=PAGE).contains(limit)));
        Ok(Self {
            metadata,
            is_running: states.split(',').any(|state| state == "running") || states.is_empty(),
            is_paused: states.split(',').any(|state| state == "paused") || states.is_empty(),
            is_ascending: query.get("order").is_some_and(|order| order == "asc"),
            after: query.get("nextToken").filter(|token| !token.is_empty()).cloned(),
            template: query.get("template").filter(|template| !template.is_empty()).cloned(),
            limit: limit.ok_or_else(|| E2bError::bad(format!("limit: a number from 1 to {PAGE}")))?,
        })
    }

    fn fits(&self, sandbox: &Detail) -> bool {
        let has = |(name, value): (&String, &String)| sandbox.metadata.get(name) == Some(value);
        self.metadata.iter().all(has) && self.template.as_ref().is_none_or(|template| *template == sandbox.template)
    }
}

/// One point: what is used now. What was used before is in the record once it is over.
pub(super) async fn metrics(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<axum::Json<Vec<Value>>, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    let measured = measure(&sandbox);
    let now = SystemTime::now();
    Ok(axum::Json(vec![json!({
        "timestamp": rfc3339(now),
        "timestampUnix": now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        "cpuCount": cpus(&sandbox),
        "cpuUsedPct": measured.cpu_percent,
        "memUsed": measured.memory,
        "memTotal": measured.memory_total,
        "memCache": 0,
        "diskUsed": measured.disk,
        "diskTotal": measured.disk_total,
    })]))
}

/// What a sandbox uses.
pub(crate) struct Measured {
    pub(crate) cpu_percent: f64,
    pub(crate) memory: u64,
    pub(crate) memory_total: u64,
    pub(crate) disk: u64,
    pub(crate) disk_total: u64,
}

pub(crate) fn measure(sandbox: &Sandbox) -> Measured {
    let (session, limit) = (&sandbox.session, |key| sandbox.session.allowed.limits.get(key).unwrap_or(0));
    let usage = session.usage();
    let disk = session.files().ok().and_then(|files| files.used_bytes().ok()).unwrap_or(0);
    let wall = usage.wall.as_secs_f64().max(0.001);
    Measured {
        cpu_percent: (usage.cpu.as_secs_f64() / wall * 100.0 * 100.0).round() / 100.0,
        memory: usage.memory_peak_bytes,
        memory_total: limit(LimitKey::Memory),
        disk,
        disk_total: limit(LimitKey::Disk),
    }
}

/// The log of a sandbox is its record, which is read by way of our own API.
pub(super) async fn logs(State(serving): State<Arc<Serving>>, By(caller): By, Path(id): Path<String>) -> Result<Response, E2bError> {
    owned(&serving, &caller, &id)?;
    Ok((StatusCode::OK, axum::Json(json!({ "logs": [], "logEntries": [] }))).into_response())
}
