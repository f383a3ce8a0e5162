//! The evidence of a run, whole, and whether it holds as seen from here. Whoever must be sure verifies it elsewhere: `ringfence evidence verify`.

use std::fs;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_evidence::{EVENTS_FILE, STATEMENT_FILE, verify};
use ringfence_store::{Caller, RunId};
use schemars::JsonSchema;
use serde::Serialize;

use super::seen;
use crate::asked::{By, Filter, Name, NoFilter};
use crate::problem::{Code, Problem};
use crate::reply::json_exact;
use crate::serving::Serving;

/// The evidence of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EvidenceBundle {
    /// The run.
    run: String,
    /// The file `events.jsonl`, byte for byte.
    events: String,
    /// The file `statement.dsse.json`, byte for byte.
    statement: String,
    /// The key that verifies it, in PEM form. Whoever must be sure has it from elsewhere.
    public_key: String,
    /// What this server finds.
    verification: Verification,
}

/// Whether a record holds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Verification {
    /// Whether every byte is as it was sealed.
    is_intact: bool,
    /// How many events there are.
    events: u64,
    /// Digest of the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

/// Fetch the evidence of a run
#[utoipa::path(get, path = "/v1/runs/{run}/evidence", operation_id = "show_run_evidence", tag = "runs",
    params(("run" = String, Path, description = "The run")),
    responses((status = 200, description = "The evidence", content_type = "application/json", body = ref("#/components/schemas/EvidenceBundle")),
        (status = 409, description = "It cannot be shown as things stand")))]
pub(super) async fn evidence(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(run): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let bundle = serving.blocking(move |serving| bundle(serving, &caller, &run)).await?;
    json_exact(&serving, StatusCode::OK, &bundle)
}

fn bundle(serving: &Serving, caller: &Caller, name: &str) -> Result<EvidenceBundle, Problem> {
    let run = seen(serving, caller, name)?;
    if serving.under_way(run.as_str()).is_some() {
        let detail = format!("run `{run}` goes on, and is not sealed");
        return Err(Problem::new(
            Code::Conflict,
            detail,
            format!("ask again when it is over; GET /v1/runs/{run}/events says how far it is"),
        ));
    }
    let file = |name: &str| fs::read_to_string(serving.home().runs().join(run.as_str()).join(name)).map_err(|error| serving.failed(&error));
    let (events, statement) = (file(EVENTS_FILE)?, file(STATEMENT_FILE)?);
    let public_key = serving.runner.public_key();
    let verification = verification(&run, &events, &statement, &public_key);
    let public_key = public_key.to_pem().map_err(|error| serving.failed(&error))?;
    Ok(EvidenceBundle { run: run.to_string(), events, statement, public_key, verification })
}

fn verification(run: &RunId, events: &str, statement: &str, key: &ringfence_evidence::PublicKey) -> Verification {
    let count = events.lines().count() as u64;
    let broken = |cause: String| Verification { is_intact: false, events: count, evidence: None, cause: Some(cause) };
    match verify(events.as_bytes(), statement.as_bytes(), key) {
        Ok(verified) if verified.statement.predicate.run == run.as_str() => {
            Verification { is_intact: true, events: count, evidence: Some(verified.digest.to_string()), cause: None }
        }
        Ok(verified) => broken(format!("this is the record of run {}", verified.statement.predicate.run)),
        Err(error) => broken(error.to_string()),
    }
}
