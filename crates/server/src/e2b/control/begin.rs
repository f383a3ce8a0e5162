//! The session of a sandbox, from what it is asked with: by a template, by a snapshot, or by what was kept when it was paused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use ringfence_control::{About, ProfileText, RunRequest, Secret, Session, SessionRequest, find_profile};
use ringfence_store::{StateId, StateKind, StateRow};
use serde::{Deserialize, Serialize};

use super::create::variables;
use crate::e2b::error::E2bError;
use crate::serving::Serving;

/// What a sandbox is asked with, as it is kept while it is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) profile: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) destinations: Vec<String>,
    pub(crate) without_network: bool,
    /// Seconds.
    pub(crate) timeout: u64,
    pub(crate) pauses_at_timeout: bool,
    pub(crate) resumes_by_itself: bool,
    /// The host that programs inside are told; `localhost` otherwise.
    #[serde(default)]
    pub(crate) masked_host: Option<String>,
}

/// Whose session it will be.
pub(super) struct Owner {
    pub(super) tenant: String,
    pub(super) agent: String,
    pub(super) metadata: BTreeMap<String, String>,
}

/// The profile of a template, and the snapshot that it names if it is none of the operator's.
pub(super) async fn origin(serving: &Arc<Serving>, tenant: &str, template: &str) -> Result<(String, Option<StateId>), E2bError> {
    if let Some(profile) = serving.runner.settings().templates.get(template) {
        return Ok((profile.clone(), None));
    }
    let snapshot = super::keep::find(serving, tenant, template).await?;
    match snapshot.filter(|state| state.said.kind == StateKind::Snapshot) {
        Some(StateRow { id, said, .. }) => Ok((said.profile, Some(id))),
        None => Err(unknown_template(template)),
    }
}

fn unknown_template(template: &str) -> E2bError {
    E2bError::new(
        StatusCode::NOT_FOUND,
        format!("template `{}` was not found; the operator lists templates under [templates] in ringfence.toml", template.escape_debug()),
    )
}

/// The profile by its name, as it stands now.
pub(super) async fn profile(serving: &Arc<Serving>, name: &str) -> Result<ProfileText, E2bError> {
    let name = name.to_owned();
    Ok(serving.blocking(move |serving| find_profile(serving.home(), &name).map_err(|error| serving.failed(&error))).await?)
}

/// Makes the session and waits until it stands.
pub(super) async fn begin(
    serving: &Arc<Serving>,
    owner: Owner,
    asked: &Asked,
    profile: ProfileText,
    from: Option<StateId>,
) -> Result<Arc<Session>, E2bError> {
    let about =
        About { tenant: owner.tenant.clone(), agent: owner.agent, profile: profile.profile.name.to_string(), metadata: owner.metadata };
    let agent = about.agent.parse().map_err(|_| E2bError::new(StatusCode::FORBIDDEN, "this tenant has no agent"))?;
    let mut run = RunRequest::bare(profile, agent, Vec::new());
    run.tenant = owner.tenant.parse().ok();
    run.known_secrets = serving.known_secrets.clone();
    run.known_secrets.extend(asked.environment.values().map(|value| Secret::new(value.clone())));
    run.environment = variables(asked.environment.clone())?;
    let destination = |text: &String| text.parse().map_err(|error| E2bError::bad(format!("network.allowOut: {error}")));
    run.destinations = asked.destinations.iter().map(destination).collect::<Result<_, _>>()?;
    run.without_network = asked.without_network;
    run.from = from;
    let time = Some(Duration::from_secs(asked.timeout));
    Ok(serving.sessions.create(SessionRequest { run, time, about }).await?)
}
