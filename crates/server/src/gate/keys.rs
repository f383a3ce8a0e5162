//! Whose key a request bears. A key is looked up by its hash; what is not of the form of a key is not looked up at all.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use ringfence_store::{Caller, KeyKind};

use crate::connection::Peer;
use crate::problem::{Code, Problem};
use crate::serving::Serving;

/// Where clients of E2B put their key.
const API_KEY: &str = "x-api-key";

/// Whoever asks.
pub(super) async fn caller(serving: &Arc<Serving>, peer: Peer, headers: &HeaderMap) -> Result<Caller, Problem> {
    let Some(given) = given(headers)? else {
        return Err(unauthorized("the request bears no key"));
    };
    let found = match is_key(&given) {
        true => serving.blocking(move |serving| serving.clients(|clients| clients.caller(&given))).await?,
        false => None,
    };
    found.ok_or_else(|| wrong(serving, peer))
}

/// What stands where a key belongs. Two of them are none.
fn given(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter().chain(headers.get_all(API_KEY));
    let value = values.next();
    if values.next().is_some() {
        return Err(unauthorized("the request bears more than one key"));
    }
    let text = value.map(|value| value.to_str().unwrap_or_default());
    let is_bearer = |text: &str| text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    Ok(text.map(|text| if is_bearer(text) { text[7..].trim() } else { text }.to_owned()))
}

/// True for what was made as a key, as far as its form tells.
fn is_key(text: &str) -> bool {
    let digits = [KeyKind::Api, KeyKind::E2b].into_iter().find_map(|kind| text.strip_prefix(kind.prefix()));
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(Code::Unauthorized, detail, "send `Authorization: Bearer rf_…`; the operator makes keys with `ringfence key add`")
}

/// A key that opens nothing is counted and told of, without its value.
fn wrong(serving: &Serving, peer: Peer) -> Problem {
    serving.metrics.count("wrong_keys", "");
    match serving.throttle.wrong(peer.0) {
        Ok(()) => {
            serving.log(&format!("a key that opens nothing, from {}", peer.0));
            unauthorized("the key opens nothing: it was never made here, or it was revoked")
        }
        Err(wait) => {
            let seconds = wait.as_secs() + 1;
            Problem::new(Code::TooManyWrongKeys, "too many keys that open nothing came from there", "wait, and send a key that is right")
                .retry_after(seconds)
        }
    }
}

/// The paths of our own API are for its own keys; any key reads the counters.
pub(super) fn check_kind(caller: &Caller, path: &str) -> Result<(), Problem> {
    match caller.kind {
        KeyKind::E2b if path.starts_with("/v1/") => {
            Err(Problem::new(Code::WrongKeyKind, "this key is for clients of E2B", "use a key of the kind `api`: it begins with `rf_`"))
        }
        KeyKind::Api | KeyKind::E2b => Ok(()),
    }
}
