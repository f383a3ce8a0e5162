//! What there is of sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Uri};
use ringfence_policy::LimitKey;
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::begin::Asked;
use super::create::domain;
use super::keep::Kept;
use super::metrics::cpus;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_mode: Option<&'static str>,
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
            pause_mode: None,
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
            pause_mode: Some("filesystem"),
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
    let mut told = json!({ "allowOut": listed, "denyOut": ["0.0.0.0/0"], "allowPublicTraffic": sandbox.is_public });
    if let Some(host) = &sandbox.asked.masked_host {
        told["maskRequestHost"] = json!(host);
    }
    told
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
    fitting.sort_by(|one, other| one.sandbox.cmp(&other.sandbox));
    if !filter.is_ascending {
        fitting.reverse();
    }
    // Their names are in the order of their beginnings: the one at which a page ended may be gone.
    if let Some(after) = &filter.after {
        fitting.retain(|sandbox| if filter.is_ascending { sandbox.sandbox > *after } else { sandbox.sandbox < *after });
    }
    let is_last = fitting.len() <= filter.limit;
    let page: Vec<Detail> = fitting.into_iter().take(filter.limit).collect();
    let next = (!is_last).then(|| page.last().map(|last| last.sandbox.clone())).flatten();
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
    started_after: Option<SystemTime>,
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
            is_ascending: is_ascending(query)?,
            started_after: query.get("startedAfter").map(|text| moment(text)).transpose()?,
            after: query.get("nextToken").filter(|token| !token.is_empty()).cloned(),
            template: query.get("template").filter(|template| !template.is_empty()).cloned(),
            limit: limit.ok_or_else(|| E2bError::bad(format!("limit: a number from 1 to {PAGE}")))?,
        })
    }

    fn fits(&self, sandbox: &Detail) -> bool {
        let has = |(name, value): (&String, &String)| sandbox.metadata.get(name) == Some(value);
        // Moments that are written in the same way stand in their order.
        let is_late_enough = self.started_after.is_none_or(|after| sandbox.started_at > rfc3339(after));
        is_late_enough && self.metadata.iter().all(has) && self.template.as_ref().is_none_or(|template| *template == sandbox.template)
    }
}

fn is_ascending(query: &BTreeMap<String, String>) -> Result<bool, E2bError> {
    match query.get("order").map(String::as_str) {
        None | Some("" | "desc") => Ok(false),
        Some("asc") => Ok(true),
        Some(other) => Err(E2bError::bad(format!("order: `{}` is neither `asc` nor `desc`", other.escape_debug()))),
    }
}

fn moment(text: &str) -> Result<SystemTime, E2bError> {
    let read = OffsetDateTime::parse(text, &Rfc3339);
    read.map(SystemTime::from).map_err(|_| E2bError::bad("startedAfter: a moment as 2026-01-31T12:00:00Z"))
}
