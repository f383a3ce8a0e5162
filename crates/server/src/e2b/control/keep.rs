//! Sandboxes that are paused and go on, and snapshots of them: files alone, never memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use ringfence_evidence::RunEnd;
use ringfence_store::{Caller, StateId, StateKind, StateRow, Viewer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::begin::{self, Asked, Owner};
use super::create::Made;
use super::{Body, owned};
use crate::asked::{By, Wanted};
use crate::e2b::envd::{Watchers, query};
use crate::e2b::error::E2bError;
use crate::e2b::sandboxes::Sandbox;
use crate::moment::rfc3339;
use crate::serving::Serving;

/// What is kept beside the files of a sandbox, so that it goes on as what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) sandbox: String,
    pub(super) template: String,
    token: Option<String>,
    traffic_token: String,
    is_public: bool,
    asked: Asked,
    pub(super) started_at: String,
    #[serde(default)]
    name: Option<String>,
}

impl Kept {
    fn of(sandbox: &Sandbox) -> Self {
        Self {
            sandbox: sandbox.id.clone(),
            template: sandbox.template.clone(),
            token: sandbox.token.clone(),
            traffic_token: sandbox.traffic_token.clone(),
            is_public: sandbox.is_public,
            asked: sandbox.asked.clone(),
            started_at: rfc3339(sandbox.session.started_at),
            name: None,
        }
    }

    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    fn value(&self) -> Value {
        json!({ "e2b": self })
    }

    pub(super) fn from(state: &StateRow) -> Option<Self> {
        serde_json::from_value(state.said.about.get("e2b")?.clone()).ok()
    }
}

fn viewer(tenant: &str) -> Viewer {
    Viewer { tenant: tenant.to_owned(), sees_the_command_line: false }
}

/// What is kept under an id, or as a snapshot under a name, for this tenant.
pub(super) async fn find(serving: &Arc<Serving>, tenant: &str, name: &str) -> Result<Option<StateRow>, E2bError> {
    let (viewer, name) = (viewer(tenant), name.to_owned());
    let found = serving.blocking(move |serving| {
        let states = serving.runner.states();
        if let Ok(id) = name.parse::<StateId>() {
            return states.get(&id, &viewer).map_err(|error| serving.failed(&error));
        }
        let all = states.list(&viewer).map_err(|error| serving.failed(&error))?;
        let is_named = |state: &StateRow| Kept::from(state).is_some_and(|kept| kept.name.as_deref() == Some(&name));
        Ok(all.into_iter().filter(|state| state.said.kind == StateKind::Snapshot).rev().find(is_named))
    });
    Ok(found.await?)
}

/// Every state of one kind that is a sandbox's, the oldest first.
pub(super) async fn all(serving: &Arc<Serving>, tenant: &str, kind: StateKind) -> Result<Vec<(StateRow, Kept)>, E2bError> {
    let viewer = viewer(tenant);
    let found = serving.blocking(move |serving| serving.runner.states().list(&viewer).map_err(|error| serving.failed(&error)));
    let fitting = found.await?.into_iter().filter(|state| state.said.kind == kind);
    Ok(fitting.filter_map(|state| Kept::from(&state).map(|kept| (state, kept))).collect())
}

/// A sandbox that is paused.
pub(super) async fn paused(serving: &Arc<Serving>, tenant: &str, id: &str) -> Result<Option<(StateRow, Kept)>, E2bError> {
    Ok(all(serving, tenant, StateKind::Paused).await?.into_iter().rev().find(|(_, kept)| kept.sandbox == id))
}

pub(super) async fn forget(serving: &Arc<Serving>, state: StateRow) -> Result<(), E2bError> {
    let removed = serving.blocking(move |serving| serving.runner.states().remove(&state).map_err(|error| serving.failed(&error)));
    Ok(removed.await?)
}

/// Lays down what a sandbox needs that is paused when its time is up. One that cannot be is ended at once.
pub(super) async fn prepare(sandbox: &Sandbox) -> Result<(), E2bError> {
    if !sandbox.asked.pauses_at_timeout {
        return Ok(());
    }
    match sandbox.session.pause_at_timeout(Kept::of(sandbox).value()) {
        Ok(()) => Ok(()),
        Err(error) => {
            sandbox.session.close(ringfence_evidence::ClosedBy::Request).await;
            Err(error.into())
        }
    }
}

/// What is to be kept. `memory: true` is what some clients send whenever they keep anything, so that it is no ask; `pauseMode` of a paused
/// sandbox says what was kept.
#[derive(Debug, Deserialize)]
pub(super) struct KeepBody {
    name: Option<String>,
}

impl Wanted for KeepBody {
    const MOST_BYTES: usize = 16 << 10;
    const IS_OPTIONAL: bool = true;
}

/// Ends a sandbox and keeps its files.
pub(super) async fn pause(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    _checked: Body<KeepBody>,
) -> Result<StatusCode, E2bError> {
    let Ok(sandbox) = owned(&serving, &caller, &id) else {
        return match paused(&serving, &caller.tenant, &id).await? {
            Some(_) => Err(E2bError::new(StatusCode::CONFLICT, format!("sandbox `{}` is paused already", id.escape_debug()))),
            None => Err(E2bError::no_sandbox(&id)),
        };
    };
    let report = serving.sessions.pause(&sandbox.session, Kept::of(&sandbox).value()).await?;
    match report.map(|report| report.end.clone()) {
        Some(RunEnd::Closed { .. }) => Ok(StatusCode::NO_CONTENT),
        Some(end) => Err(E2bError::from(serving.failed(&format!("sandbox {id} could not be paused: {end:?}")))),
        None => Err(E2bError::from(serving.failed(&format!("the record of sandbox {id} could not be sealed")))),
    }
}

/// A sandbox that was paused goes on, under its old name, in a new run. `None` if it is not paused.
pub(super) async fn resume(serving: &Arc<Serving>, tenant: &str, id: &str, seconds: Option<u64>) -> Result<Option<Arc<Sandbox>>, E2bError> {
    // One at a time: whoever comes second finds it standing.
    let _turn = serving.resuming.lock().await;
    if let Some(sandbox) = serving.sandboxes.find(id) {
        return Ok(Some(sandbox).filter(|sandbox| sandbox.session.about.tenant == tenant));
    }
    let Some((state, kept)) = paused(serving, tenant, id).await? else { return Ok(None) };
    let profile = begin::profile(serving, &kept.asked.profile).await?;
    let asked = Asked { timeout: seconds.unwrap_or(kept.asked.timeout), ..kept.asked.clone() };
    super::create::check_time(asked.timeout, profile.profile.bound.limits.get(ringfence_policy::LimitKey::Wall).map(|ms| ms / 1000))?;
    let owner = Owner { tenant: tenant.to_owned(), agent: state.said.agent.clone(), metadata: state.said.metadata.clone() };
    let session = begin::begin(serving, owner, &asked, profile, Some(state.id.clone())).await?;
    let sandbox = Arc::new(Sandbox {
        id: kept.sandbox,
        session,
        template: kept.template,
        token: kept.token,
        traffic_token: kept.traffic_token,
        is_public: kept.is_public,
        asked,
        watchers: Watchers::default(),
        usual_contexts: tokio::sync::Mutex::default(),
    });
    prepare(&sandbox).await?;
    serving.sandboxes.add(sandbox.clone());
    forget(serving, state).await?;
    Ok(Some(sandbox))
}

/// The same for whoever asks for something in a sandbox that was made to go on by itself. What they show is looked at afterwards, as ever.
pub(in crate::e2b) async fn resume_by_itself(serving: &Arc<Serving>, id: &str) -> Result<Option<Arc<Sandbox>>, E2bError> {
    let tenants = serving.blocking(|serving| serving.clients(|clients| clients.tenants())).await?;
    for tenant in tenants {
        let found = paused(serving, &tenant.name, id).await?;
        if found.is_some_and(|(_, kept)| kept.asked.resumes_by_itself) {
            return resume(serving, &tenant.name, id, None).await;
        }
    }
    Ok(None)
}

/// Keeps the files of a sandbox that goes on.
async fn take(serving: &Arc<Serving>, sandbox: &Sandbox, name: Option<String>) -> Result<StateRow, E2bError> {
    let kept = Kept { name, ..Kept::of(sandbox) };
    Ok(serving.sessions.snapshot(&sandbox.session, kept.value()).await?)
}

pub(super) async fn snapshot(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    body: Body<KeepBody>,
) -> Result<Response, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    let state = take(&serving, &sandbox, body.0.body.name).await?;
    Ok((StatusCode::CREATED, axum::Json(told(&state))).into_response())
}

fn told(state: &StateRow) -> Value {
    let names: Vec<String> = Kept::from(state).and_then(|kept| kept.name).into_iter().collect();
    json!({ "snapshotID": state.id.as_str(), "names": names })
}

/// Snapshots on one page at most.
const PAGE: usize = 100;

pub(super) async fn list(State(serving): State<Arc<Serving>>, By(caller): By, uri: Uri) -> Result<Response, E2bError> {
    let query = query(&uri);
    let limit = query.get("limit").map_or(Some(PAGE), |limit| limit.parse().ok().filter(|limit| (1..=PAGE).contains(limit)));
    let limit = limit.ok_or_else(|| E2bError::bad(format!("limit: a number from 1 to {PAGE}")))?;
    let fits = |(_, kept): &(StateRow, Kept)| {
        let is = |wanted: Option<&String>, is: Option<&str>| wanted.is_none_or(|wanted| Some(wanted.as_str()) == is);
        is(query.get("sandboxID"), Some(&kept.sandbox)) && is(query.get("name"), kept.name.as_deref())
    };
    let mut fitting: Vec<_> = all(&serving, &caller.tenant, StateKind::Snapshot).await?.into_iter().filter(fits).collect();
    fitting.reverse();
    let after = query.get("nextToken").filter(|token| !token.is_empty());
    let begins =
        after.map_or(0, |after| fitting.iter().position(|(state, _)| state.id.as_str() == after).map_or(fitting.len(), |at| at + 1));
    let page: Vec<Value> = fitting.iter().skip(begins).take(limit).map(|(state, _)| told(state)).collect();
    let next = (begins + page.len() < fitting.len()).then(|| page.last().and_then(|last| last["snapshotID"].as_str().map(str::to_owned)));
    let mut response = axum::Json(page).into_response();
    if let Some(Ok(next)) = next.flatten().map(|next| HeaderValue::from_str(&next)) {
        response.headers_mut().insert("x-next-token", next);
    }
    Ok(response)
}

/// Removes a snapshot; the operator's own templates are not removed by clients.
pub(super) async fn remove(State(serving): State<Arc<Serving>>, By(caller): By, Path(id): Path<String>) -> Result<StatusCode, E2bError> {
    let found = find(&serving, &caller.tenant, &id).await?;
    let snapshot = found.filter(|state| state.said.kind == StateKind::Snapshot);
    let missing = || E2bError::new(StatusCode::NOT_FOUND, format!("snapshot `{}` was not found", id.escape_debug()));
    forget(&serving, snapshot.ok_or_else(missing)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
pub(super) struct ForkBody {
    timeout: Option<u64>,
    count: Option<u32>,
}

impl Wanted for ForkBody {
    const MOST_BYTES: usize = 4 << 10;
    const IS_OPTIONAL: bool = true;
}

/// Forks of one sandbox at once.
const MOST_FORKS: u32 = 16;

/// Others that begin with the files of this one.
pub(super) async fn fork(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body<ForkBody>,
) -> Result<Response, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    let count = body.0.body.count.unwrap_or(1);
    if !(1..=MOST_FORKS).contains(&count) {
        return Err(E2bError::bad(format!("count: 1 to {MOST_FORKS}")));
    }
    let left = sandbox.session.ends_at().duration_since(SystemTime::now()).unwrap_or(Duration::from_secs(1));
    let timeout = body.0.body.timeout.unwrap_or(left.as_secs().max(1));
    let state = take(&serving, &sandbox, None).await?;
    let mut forks = Vec::new();
    for _ in 0..count {
        let made = fork_of(&serving, &caller, &sandbox, &state, timeout).await;
        forks.push(match made {
            Ok(fork) => json!({ "sandbox": Made::of(&fork, &headers) }),
            Err(error) => json!({ "error": { "code": error.status.as_u16(), "message": error.message } }),
        });
    }
    forget(&serving, state).await?;
    Ok((StatusCode::CREATED, axum::Json(forks)).into_response())
}

async fn fork_of(
    serving: &Arc<Serving>,
    caller: &Caller,
    sandbox: &Sandbox,
    state: &StateRow,
    timeout: u64,
) -> Result<Arc<Sandbox>, E2bError> {
    let profile = begin::profile(serving, &sandbox.asked.profile).await?;
    let asked = Asked { timeout, ..sandbox.asked.clone() };
    let about = &sandbox.session.about;
    let metadata: BTreeMap<String, String> = about.metadata.clone();
    let owner = Owner { tenant: caller.tenant.clone(), agent: about.agent.clone(), metadata };
    let session = begin::begin(serving, owner, &asked, profile, Some(state.id.clone())).await?;
    let token = || crate::e2b::new_token().map_err(|error| E2bError::from(serving.failed(&error)));
    let fork = Arc::new(Sandbox {
        id: session.run.to_string(),
        session,
        template: sandbox.template.clone(),
        token: sandbox.token.is_some().then(token).transpose()?,
        traffic_token: token()?,
        is_public: sandbox.is_public,
        asked,
        watchers: Watchers::default(),
        usual_contexts: tokio::sync::Mutex::default(),
    });
    prepare(&fork).await?;
    serving.sandboxes.add(fork.clone());
    Ok(fork)
}
