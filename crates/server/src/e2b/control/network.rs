//! What a client may say about a sandbox's network, and what that means here: it can ask for less than the profile allows, and never for more.

use std::sync::Arc;

use axum::extract::{Path, State};
use ringfence_policy::Destination;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Body, owned};
use crate::asked::{By, Wanted};
use crate::e2b::error::E2bError;
use crate::serving::Serving;

/// The `network` of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Network {
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    allow_public_traffic: Option<bool>,
    mask_request_host: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What it asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NetworkAsk {
    /// No network at all.
    pub(super) is_none: bool,
    /// Only these.
    pub(super) destinations: Vec<Destination>,
    /// Ports are reached with a token.
    pub(super) is_private: bool,
    /// The host that programs inside are told instead of `localhost`.
    pub(super) masked_host: Option<String>,
}

/// Everything there is, as E2B's clients write it.
const EVERYTHING: &[&str] = &["0.0.0.0/0", "::/0"];

impl Network {
    /// What is asked for, or why that cannot be had here. `false` as `allowInternetAccess` is the same as denying everything.
    pub(super) fn ask(&self, allow_internet_access: Option<bool>) -> Result<NetworkAsk, E2bError> {
        self.check_others()?;
        let denied = self.deny_out.as_deref().unwrap_or_default();
        let denies_all = allow_internet_access == Some(false) || denied.iter().any(|range| EVERYTHING.contains(&range.as_str()));
        let allowed = self.allow_out.as_deref().unwrap_or_default();
        if let (false, Some(range)) = (denies_all, denied.first()) {
            return Err(E2bError::bad(format!(
                "network.denyOut: `{}` alone cannot be denied: a sandbox reaches what its profile lists and nothing else; deny 0.0.0.0/0 and list what remains in allowOut",
                range.escape_debug()
            )));
        }
        let destinations = allowed.iter().filter(|host| !EVERYTHING.contains(&host.as_str())).map(|host| destinations(host));
        let destinations: Vec<Destination> = destinations.collect::<Result<Vec<_>, _>>()?.concat();
        if let Some(all) = allowed.iter().find(|host| EVERYTHING.contains(&host.as_str())) {
            return Err(E2bError::bad(format!(
                "network.allowOut: `{all}` cannot be allowed: name the hosts that are needed, which the profile must list"
            )));
        }
        Ok(NetworkAsk {
            is_none: denies_all && destinations.is_empty(),
            destinations,
            is_private: self.allow_public_traffic == Some(false),
            masked_host: self.mask_request_host.as_deref().filter(|host| !host.is_empty()).map(masked_host).transpose()?,
        })
    }

    /// What would have an effect elsewhere has one here, or is refused.
    fn check_others(&self) -> Result<(), E2bError> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(table) => table.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        match self.others.iter().find(|(_, value)| !is_empty(value)) {
            None => Ok(()),
            Some((name, _)) => Err(E2bError::bad(format!(
                "network.{}: not available here: the operator sets it in the profile ([network], [credentials]); leave it out",
                name.escape_debug()
            ))),
        }
    }
}

/// Names of hosts end at this length.
const LONGEST_HOST: usize = 255;

/// A host as a request names it, with `${PORT}` where the port belongs that is asked for.
fn masked_host(host: &str) -> Result<String, E2bError> {
    let named: Option<http::uri::Authority> = crate::e2b::ports::masked(host, u16::MAX).parse().ok();
    match named.filter(|named| !named.as_str().contains('@') && host.len() <= LONGEST_HOST) {
        Some(_) => Ok(host.to_owned()),
        None => Err(E2bError::bad(format!(
            "network.maskRequestHost: `{}` is no host; write a name, and `:${{PORT}}` behind it if programs inside are to see the port",
            host.escape_debug()
        ))),
    }
}

/// A host by name stands for its web ports.
fn destinations(host: &str) -> Result<Vec<Destination>, E2bError> {
    if host.contains('/') || host.parse::<std::net::IpAddr>().is_ok() {
        return Err(E2bError::bad(format!(
            "network.allowOut: `{}` is an address: destinations are names of hosts here, which the profile must list",
            host.escape_debug()
        )));
    }
    let texts = [format!("https://{host}:443"), format!("http://{host}:80")];
    let wrong = |error: &dyn std::fmt::Display| E2bError::bad(format!("network.allowOut: {error}"));
    texts.iter().map(|text| text.parse::<Destination>().map_err(|error| wrong(&error))).collect()
}

/// A change of the network of a sandbox that stands.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeBody {
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    #[serde(flatten)]
    network: Network,
}

impl Wanted for ChangeBody {
    const MOST_BYTES: usize = 64 << 10;
    const IS_OPTIONAL: bool = true;
}

/// What a run may reach is decided before it begins, and stands in its record: only what changes nothing is taken.
pub(super) async fn change(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    body: Body<ChangeBody>,
) -> Result<http::StatusCode, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    let ChangeBody { allow_internet_access, network } = body.0.body;
    let ask = network.ask(allow_internet_access)?;
    let has_none = sandbox.session.allowed.network.is_none();
    let is_as_it_was = ask.masked_host.is_none() || ask.masked_host == sandbox.asked.masked_host;
    match ask.destinations.is_empty() && (has_none || !ask.is_none) && (!ask.is_private || !sandbox.is_public) && is_as_it_was {
        true => Ok(http::StatusCode::NO_CONTENT),
        false => Err(E2bError::bad(
            "what a sandbox may reach is decided when it is made and cannot be changed afterwards; make another one with the network that it needs",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str, access: Option<bool>) -> Result<NetworkAsk, String> {
        serde_json::from_str::<Network>(text).unwrap().ask(access).map_err(|error| error.message)
    }

    #[test]
    fn less_can_be_asked_for_and_more_is_refused() {
        assert_eq!(ask("{}", Some(true)), Ok(NetworkAsk::default()), "a default of clients is no ask");
        assert!(ask("{}", Some(false)).unwrap().is_none);
        assert!(ask(r#"{"denyOut":["0.0.0.0/0"]}"#, None).unwrap().is_none);
        let listed = ask(r#"{"allowOut":["api.example.com"],"denyOut":["0.0.0.0/0"]}"#, None).unwrap();
        assert_eq!((listed.destinations.len(), listed.is_none), (2, false));
        assert!(ask(r#"{"allowPublicTraffic":false}"#, None).unwrap().is_private);
        for refused in [
            r#"{"denyOut":["10.0.0.0/8"]}"#,
            r#"{"allowOut":["0.0.0.0/0"]}"#,
            r#"{"allowOut":["10.1.2.3"]}"#,
            r#"{"allowOut":["a b"]}"#,
            r#"{"dnsServers":["8.8.8.8"]}"#,
            r#"{"maskRequestHost":"a b"}"#,
            r#"{"maskRequestHost":"user@a.example"}"#,
            r#"{"maskRequestHost":"a.example\r\nX: y"}"#,
            r#"{"maskRequestHost":"a.example/path"}"#,
            r#"{"rules":{"a.example":[{"transform":{"headers":{"A":"b"}}}]}}"#,
            r#"{"egressProxy":{"address":"x"}}"#,
        ] {
            assert!(ask(refused, None).is_err(), "{refused}");
        }
        assert_eq!(ask(r#"{"maskRequestHost":"a.example:${PORT}"}"#, None).unwrap().masked_host.as_deref(), Some("a.example:${PORT}"));
        assert!(ask(r#"{"dnsServers":[],"rules":{},"egressProxy":null}"#, None).is_ok(), "what says nothing is no ask");
    }
}
