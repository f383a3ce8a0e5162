//! A sandbox is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use ringfence_isolation::OsText;
use ringfence_policy::{EnvName, LimitKey};
use ringfence_store::Caller;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::begin::{self, Asked, Owner};
use super::network::Network;
use super::{Body, keep};
use crate::asked::{self, By, Wanted};
use crate::e2b::creations::Creation;
use crate::e2b::error::E2bError;
use crate::e2b::sandboxes::{Sandbox, new_token};
use crate::e2b::{ENVD_VERSION, envd};
use crate::serving::Serving;

/// What a client asks for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateBody {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    allow_internet_access: Option<bool>,
    network: Option<Network>,
    secure: Option<bool>,
    auto_pause: Option<bool>,
    auto_resume: Option<Map<String, Value>>,
    mcp: Option<Value>,
    iam: Option<Value>,
    volume_mounts: Option<Vec<Value>>,
}

impl Wanted for CreateBody {
    const MOST_BYTES: usize = 1 << 20;
}

/// What a client is told of a sandbox that it may reach.
#[derive(Debug, Serialize)]
pub(super) struct Made {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    sandbox: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    #[serde(rename = "envdVersion")]
    envd_version: &'static str,
    #[serde(rename = "envdAccessToken", skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(rename = "trafficAccessToken")]
    traffic_token: String,
    domain: String,
}

impl Made {
    pub(super) fn of(sandbox: &Sandbox, headers: &HeaderMap) -> Self {
        Self {
            template: sandbox.template.clone(),
            sandbox: sandbox.id().to_owned(),
            client: "ringfence",
            envd_version: ENVD_VERSION,
            token: sandbox.token.clone(),
            traffic_token: sandbox.traffic_token.clone(),
            domain: domain(headers),
        }
    }
}

/// What stands behind `PORT-ID.` in a host name that leads here: an address has no names of its own, `localhost` does.
pub(super) fn domain(headers: &HeaderMap) -> String {
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => (name, Some(port)),
        _ => (host, None),
    };
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let name = if is_address { "localhost" } else { name };
    port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

/// On the path of version 2 every sandbox has a token.
pub(super) async fn create(serving: State<Arc<Serving>>, by: By, headers: HeaderMap, body: Body<CreateBody>) -> Result<Response, E2bError> {
    answer(serving.0, by.0, headers, body.0, true).await
}

/// On the old path one may ask for none.
pub(super) async fn create_old(
    serving: State<Arc<Serving>>,
    by: By,
    headers: HeaderMap,
    body: Body<CreateBody>,
) -> Result<Response, E2bError> {
    let is_secure = body.0.body.secure.unwrap_or(true);
    answer(serving.0, by.0, headers, body.0, is_secure).await
}

async fn answer(
    serving: Arc<Serving>,
    caller: Caller,
    headers: HeaderMap,
    asked: asked::Asked<CreateBody>,
    is_secure: bool,
) -> Result<Response, E2bError> {
    // A client that goes away meanwhile leaves a sandbox behind that its time ends.
    let made = tokio::spawn(async move { once(&serving, &caller, asked, is_secure).await }).await;
    let sandbox = made.map_err(|_| E2bError::new(StatusCode::INTERNAL_SERVER_ERROR, "the server could not do this"))??;
    Ok((StatusCode::CREATED, axum::Json(Made::of(&sandbox, &headers))).into_response())
}

/// What was made for the same request before, if it stands.
async fn once(serving: &Arc<Serving>, caller: &Caller, asked: asked::Asked<CreateBody>, is_secure: bool) -> Result<Arc<Sandbox>, E2bError> {
    match serving.creations.begin(&caller.tenant, &asked.again)? {
        Creation::Made(sandbox) => Ok(sandbox),
        Creation::New(under_way) => {
            let sandbox = make(serving, caller, asked.body, is_secure).await?;
            under_way.done(&sandbox);
            Ok(sandbox)
        }
    }
}

async fn make(serving: &Arc<Serving>, caller: &Caller, body: CreateBody, is_secure: bool) -> Result<Arc<Sandbox>, E2bError> {
    body.check()?;
    let ask = body.network.clone().unwrap_or_default().ask(body.allow_internet_access)?;
    let (profile, from) = begin::origin(serving, &caller.tenant, &body.template).await?;
    let profile = begin::profile(serving, &profile).await?;
    let asked = Asked {
        profile: profile.profile.name.to_string(),
        environment: body.env_vars.clone().unwrap_or_default(),
        destinations: ask.destinations.iter().map(ToString::to_string).collect(),
        without_network: ask.is_none,
        timeout: time(body.timeout, &profile)?.as_secs(),
        pauses_at_timeout: body.wants_pause(),
        resumes_by_itself: body.wants_resume(),
        masked_host: ask.masked_host,
    };
    let owner = Owner {
        tenant: caller.tenant.clone(),
        agent: caller.agents.first().cloned().unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default(),
    };
    let session = begin::begin(serving, owner, &asked, profile, from).await?;
    let token = || new_token().map_err(|error| E2bError::from(serving.failed(&error)));
    let sandbox = Arc::new(Sandbox {
        id: session.run.to_string(),
        session,
        template: body.template,
        token: is_secure.then(token).transpose()?,
        traffic_token: token()?,
        is_public: !ask.is_private,
        asked,
        watchers: envd::Watchers::default(),
        usual_contexts: tokio::sync::Mutex::default(),
    });
    keep::prepare(&sandbox).await?;
    serving.sandboxes.add(sandbox.clone());
    Ok(sandbox)
}

impl CreateBody {
    /// What cannot be had here is refused by its name.
    fn check(&self) -> Result<(), E2bError> {
        let is_asked =
            |value: &Option<Value>| value.as_ref().is_some_and(|v| !v.is_null() && v.as_object().is_none_or(|table| !table.is_empty()));
        let asked = [
            // In the words that clients use themselves where the gateway does not start.
            ("mcp", is_asked(&self.mcp), "Failed to start MCP gateway: a gateway inside a sandbox"),
            ("iam", is_asked(&self.iam), "identities of a cloud"),
            ("volumeMounts", self.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()), "volumes"),
        ];
        match asked.iter().find(|(_, is_asked, _)| *is_asked) {
            Some((name, _, what)) => Err(E2bError::bad(format!("{name}: {what} cannot be had here; leave it out"))),
            None => Ok(()),
        }
    }

    /// Whether a client wants its sandbox kept when its time is up.
    fn wants_pause(&self) -> bool {
        self.auto_pause == Some(true)
    }

    /// Whether it goes on by itself when somebody asks for something in it.
    fn wants_resume(&self) -> bool {
        let enabled = self.auto_resume.as_ref().and_then(|resume| resume.get("enabled")).and_then(Value::as_bool);
        enabled == Some(true)
    }
}

/// How long a sandbox lives if its client does not say.
const USUAL_SECONDS: u64 = 15;

fn time(seconds: Option<u64>, profile: &ringfence_control::ProfileText) -> Result<Duration, E2bError> {
    let seconds = seconds.unwrap_or(USUAL_SECONDS);
    let most = profile.profile.bound.limits.get(LimitKey::Wall).map(|ms| ms / 1000);
    check_time(seconds, most)
}

/// A time that a sandbox may be given; `most` are the seconds that its profile allows.
pub(super) fn check_time(seconds: u64, most: Option<u64>) -> Result<Duration, E2bError> {
    match most.filter(|most| seconds > *most) {
        Some(most) => Err(E2bError::bad(format!("timeout: {seconds} s is more than the {most} s that the profile allows (limit `wall`)"))),
        None => Ok(Duration::from_secs(seconds)),
    }
}

/// Variables by their names and values.
pub(crate) fn variables(given: BTreeMap<String, String>) -> Result<Vec<(EnvName, OsText)>, E2bError> {
    let one = |(name, value): (String, String)| {
        let name: EnvName = name.parse().map_err(|error| E2bError::bad(format!("envVars: {error}")))?;
        match value.contains('\0') || value.len() >= 128 << 10 {
            true => Err(E2bError::bad(format!("envVars: the value of `{name}` holds a NUL or is longer than 131071 bytes"))),
            false => Ok((name, OsText::from(value.as_str()))),
        }
    };
    given.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_of_sandboxes_lead_back_to_where_the_client_asked() {
        let domain = |host: &str| super::domain(&HeaderMap::from_iter([(http::header::HOST, host.parse().unwrap())]));
        assert_eq!(domain("127.0.0.1:7300"), "localhost:7300");
        assert_eq!(domain("localhost:7300"), "localhost:7300");
        assert_eq!(domain("[::1]:7300"), "localhost:7300");
        assert_eq!(domain("ring.example"), "ring.example");
    }
}
