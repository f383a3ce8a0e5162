//! What persons are asked to approve. A key shows it and hands in what a person has signed; it decides nothing: the signature is by the person's own key,
//! which this server never sees.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{ApprovalError, ApprovalReport, ApprovalRequest, Approvals, Matter, PromotionReport, moment_in_words};
use ringfence_evidence::{Envelope, EnvelopeSignature, canonical};
use ringfence_policy::PersonName;
use ringfence_store::{ApprovalRow, Caller, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Routes, promotions};
use crate::asked::{Asked, By, Filter, Name, NoFilter, Wanted, named};
use crate::bounded::{Few, Text};
use crate::idempotency::once;
use crate::problem::{Code, Problem};
use crate::reply::{json, json_exact};
use crate::serving::Serving;

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(decide))
}

/// Approvals, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalList {
    /// The approvals that can still be decided or used.
    approvals: Vec<ApprovalItem>,
}

/// An approval.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalItem {
    /// What it is for: `promotion` or `agent`.
    kind: &'static str,
    /// The promotion, or the agent after a colon.
    subject: String,
    /// How it stands.
    #[serde(flatten)]
    report: ApprovalReport,
}

/// An approval with all that is signed and shown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalView {
    #[serde(flatten)]
    item: ApprovalItem,
    /// Why it stands like this, if there is more to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    cause: String,
    /// Until when it can be used once it is given, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    execute_by: Option<String>,
    /// What is asked, byte for byte: its SHA-256 is what a decision signs.
    request: String,
    /// That SHA-256.
    digest: String,
    /// Exactly what will happen.
    preview: String,
    /// SHA-256 of the preview, which a decision signs as well.
    preview_digest: String,
}

/// What a person has signed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionBody {
    /// The person.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
    person: Text<1, 64>,
    /// The statement in its DSSE envelope, signed with the person's registered key.
    envelope: EnvelopeBody,
}

/// A DSSE envelope.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvelopeBody {
    /// The statement, in base 64.
    payload: Text<1, 65_536>,
    /// `application/vnd.in-toto+json`.
    #[serde(rename = "payloadType")]
    payload_type: Text<1, 128>,
    /// One signature.
    signatures: Few<SignatureBody, 1>,
}

/// A signature of an envelope.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignatureBody {
    /// Id of the key.
    keyid: Text<1, 256>,
    /// The signature, in base 64.
    sig: Text<1, 256>,
}

impl Wanted for DecisionBody {
    const MOST_BYTES: usize = 128 << 10;
}

/// What a decision led to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Decided {
    /// The approval as it stands now.
    approval: ApprovalItem,
    /// The promotion that it is for, which has gone on as far as it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    promotion: Option<PromotionReport>,
}

/// List what persons are asked to approve
#[utoipa::path(get, path = "/v1/approvals", operation_id = "list_approvals", tag = "approvals",
    responses((status = 200, description = "What can still be decided or used", content_type = "application/json", body = ref("#/components/schemas/ApprovalList"))))]
async fn list(State(serving): State<Arc<Serving>>, By(caller): By, Filter(NoFilter {}): Filter<NoFilter>) -> Result<Response, Problem> {
    let approvals = serving.blocking(move |serving| {
        let mut approvals = open(serving)?;
        let rows = approvals.list(true).map_err(|error| serving.failed(&error))?;
        let mut seen = Vec::new();
        for row in rows {
            if sees(serving, &caller, &row)? {
                // One that was altered is listed all the same, as one that nobody has agreed to.
                let (agreed, able) = approvals.find(&row.id).map(|asked| (asked.agreed, asked.able)).unwrap_or_default();
                seen.push(ApprovalItem::of(&row, agreed, able));
            }
        }
        Ok(seen)
    });
    json(&serving, StatusCode::OK, &ApprovalList { approvals: approvals.await? })
}

/// Show exactly what will happen
#[utoipa::path(get, path = "/v1/approvals/{approval}", operation_id = "show_approval", tag = "approvals",
    params(("approval" = String, Path, description = "The approval")),
    responses((status = 200, description = "What is asked, signed and shown", content_type = "application/json", body = ref("#/components/schemas/ApprovalView")),
        (status = 409, description = "It cannot be shown as things stand")))]
async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(name): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let view = serving.blocking(move |serving| {
        let asked = find(serving, &mut open(serving)?, &caller, &name)?;
        let preview_digest = asked.request.preview.to_string();
        let (request, digest) = (asked.row.request.clone(), asked.row.digest.clone());
        Ok(ApprovalView {
            cause: asked.row.cause.clone(),
            execute_by: asked.row.execute_by.map(moment_in_words),
            item: ApprovalItem::of(&asked.row, asked.agreed, asked.able),
            request,
            digest,
            preview: asked.preview,
            preview_digest,
        })
    });
    json_exact(&serving, StatusCode::OK, &view.await?)
}

/// Hand in what a person has signed
///
/// The payload is an in-toto statement of the type `urn:ringfence:decision:v1` about two subjects: the approval with the digest of its request, and
/// `preview.txt` with that of the preview. What everybody has agreed to who must is done at once.
#[utoipa::path(post, path = "/v1/approvals/{approval}/decisions", operation_id = "decide", tag = "approvals",
    params(("approval" = String, Path, description = "The approval")),
    request_body(content = ref("#/components/schemas/DecisionBody"), content_type = "application/json"),
    responses((status = 201, description = "It is recorded", content_type = "application/json", body = ref("#/components/schemas/Decided"))))]
async fn decide(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(name): Name,
    asked: Asked<DecisionBody>,
) -> Result<Response, Problem> {
    let (server, who, body) = (serving.clone(), caller.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let decided = server.blocking(move |serving| take(serving, &who, &name, body)).await?;
        json(&server, StatusCode::CREATED, &decided)
    })
    .await
}

fn take(serving: &Arc<Serving>, caller: &Caller, name: &str, body: DecisionBody) -> Result<Decided, Problem> {
    let _task = serving.work.begin(&caller.tenant)?;
    let mut approvals = open(serving)?;
    let asked = find(serving, &mut approvals, caller, name)?;
    let person: PersonName =
        body.person.0.parse().map_err(|error| Problem::value("person", error, "the name under which the person is registered"))?;
    let envelope = body.envelope.text().map_err(|error| serving.failed(&error))?;
    approvals.take(&asked.row.id, &person, &envelope).map_err(|error| refused(serving, &error))?;
    let promotion = go_on(serving, &mut approvals, &asked.request)?;
    let now = approvals.find(&asked.row.id).map_err(|error| serving.failed(&error))?;
    Ok(Decided { approval: ApprovalItem::of(&now.row, now.agreed, now.able), promotion })
}

/// What was decided takes effect, as far as it can.
fn go_on(serving: &Serving, approvals: &mut Approvals, request: &ApprovalRequest) -> Result<Option<PromotionReport>, Problem> {
    match request.matter {
        Matter::Promotion { .. } => {
            let report = serving.runner.resume(&request.subject).map_err(|error| promotions::refused(serving, &error))?;
            Ok(Some(promotions::shown(report)))
        }
        Matter::Agent { .. } => approvals.settle_agents().map(|_| None).map_err(|error| serving.failed(&error)),
    }
}

impl EnvelopeBody {
    /// The envelope in its canonical form, as it is kept.
    fn text(self) -> Result<String, serde_json::Error> {
        let signatures =
            self.signatures.0.into_iter().map(|signature| EnvelopeSignature { keyid: signature.keyid.0, sig: signature.sig.0 });
        let envelope = Envelope { payload: self.payload.0, payload_type: self.payload_type.0, signatures: signatures.collect() };
        canonical(&envelope).map(|text| format!("{text}\n"))
    }
}

impl ApprovalItem {
    fn of(row: &ApprovalRow, agreed: Vec<String>, able: usize) -> Self {
        let kind = if row.subject.parse::<RunId>().is_ok() { "promotion" } else { "agent" };
        Self { kind, subject: row.subject.clone(), report: ApprovalReport::of(row, agreed, able) }
    }
}

fn open(serving: &Serving) -> Result<Approvals, Problem> {
    Approvals::open(serving.home()).map_err(|error| serving.failed(&error))
}

/// An approval that this caller sees.
fn find(serving: &Serving, approvals: &mut Approvals, caller: &Caller, name: &str) -> Result<ringfence_control::AskedApproval, Problem> {
    let id: RunId = named("approval", name)?;
    let asked = match approvals.find(id.as_str()) {
        Err(ApprovalError::NoApproval(_)) => return Err(Problem::not_found("approval", name)),
        Err(error @ ApprovalError::Altered { .. }) => return Err(Problem::new(Code::Conflict, error.to_string(), error.hint())),
        found => found.map_err(|error| serving.failed(&error))?,
    };
    match sees(serving, caller, &asked.row)? {
        true => Ok(asked),
        false => Err(Problem::not_found("approval", name)),
    }
}

/// Approvals of a tenant's promotions and agents are its own.
fn sees(serving: &Serving, caller: &Caller, row: &ApprovalRow) -> Result<bool, Problem> {
    let Ok(request) = serde_json::from_str::<ApprovalRequest>(&row.request) else { return Ok(false) };
    match &request.matter {
        Matter::Agent { agent, .. } => Ok(caller.agents.contains(agent)),
        Matter::Promotion { .. } => match promotions::find(serving, caller, &request.subject) {
            Ok(_) => Ok(true),
            Err(problem) if problem.code() == Code::NotFound => Ok(false),
            Err(problem) => Err(problem),
        },
    }
}

/// What a decision cannot do, in words; anything else is ours.
fn refused(serving: &Serving, error: &ApprovalError) -> Problem {
    let code = match error {
        ApprovalError::Barred(_) => Code::NotYoursToDecide,
        ApprovalError::Registry(registry) if !matches!(registry, ringfence_control::RegistryError::Store(_)) => Code::NotYoursToDecide,
        ApprovalError::Over { .. } | ApprovalError::Before { .. } | ApprovalError::Altered { .. } => Code::Conflict,
        ApprovalError::Unfit { .. } => Code::DecisionRefused,
        ApprovalError::NoApproval(_)
        | ApprovalError::NoStanding(_)
        | ApprovalError::Grant(_)
        | ApprovalError::Sign(_)
        | ApprovalError::Preview { .. }
        | ApprovalError::Registry(_)
        | ApprovalError::Store(_) => return serving.failed(error),
    };
    Problem::new(code, error.to_string(), error.hint())
}
