//! Promotions: what a tenant's runs made, on its way to taking effect. Asking is all that a key can do: persons approve.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{Attachments, OutputTo, PromotionError, PromotionReport, PromotionRequest, RegistryError};
use ringfence_evidence::Digest;
use ringfence_policy::TargetName;
use ringfence_store::{ArtifactRow, Caller, Index, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use super::runs::Untold;
use crate::asked::{Asked, By, Filter, Name, NoFilter, Wanted, named};
use crate::bounded::Text;
use crate::idempotency::once;
use crate::problem::{Code, Problem};
use crate::reply::{json, located};
use crate::serving::{Serving, viewer};

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(show))
}

/// Promotions, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PromotionList {
    /// The promotions.
    promotions: Vec<PromotionReport>,
}

/// A promotion that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromotionBody {
    /// Digest of the artifact.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    artifact: Text<71, 71>,
    /// The run that made it, where several did.
    #[schemars(regex(pattern = "^[0-9a-hjkmnp-tv-z]{26}$"))]
    run: Option<Text<26, 26>>,
    /// Its path in that run, where it has several.
    path: Option<Text<1, 4096>>,
    /// The target, as the operator names it.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
    target: Text<1, 64>,
    /// Why; it becomes the message of the commit.
    #[schemars(regex(pattern = "\\S"))]
    message: Option<Text<1, 8192>>,
    /// Whether to ask anew although the same took effect before.
    #[serde(default)]
    again: bool,
}

impl Wanted for PromotionBody {
    const MOST_BYTES: usize = 64 << 10;
}

/// List promotions, the newest first
#[utoipa::path(get, path = "/v1/promotions", operation_id = "list_promotions", tag = "promotions",
    responses((status = 200, description = "The newest 1,000 of the home, as far as they are this tenant's", content_type = "application/json", body = ref("#/components/schemas/PromotionList"))))]
async fn list(State(serving): State<Arc<Serving>>, By(caller): By, Filter(NoFilter {}): Filter<NoFilter>) -> Result<Response, Problem> {
    let promotions = serving.blocking(move |serving| {
        let reports = serving.runner.promotions().map_err(|error| serving.failed(&error))?;
        let mut index = Index::open(serving.home()).map_err(|error| serving.failed(&error))?;
        let mut seen = Vec::new();
        for report in reports {
            if index.run_of(&viewer(&caller), &report.run).map_err(|error| serving.failed(&error))?.is_some() {
                seen.push(shown(report));
            }
        }
        Ok(seen)
    });
    json(&serving, StatusCode::OK, &PromotionList { promotions: promotions.await? })
}

/// Show a promotion
#[utoipa::path(get, path = "/v1/promotions/{promotion}", operation_id = "show_promotion", tag = "promotions",
    params(("promotion" = String, Path, description = "The promotion")),
    responses((status = 200, description = "As it stands", content_type = "application/json", body = ref("#/components/schemas/PromotionReport"))))]
async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(name): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let report = serving.blocking(move |serving| find(serving, &caller, &name)).await?;
    json(&serving, StatusCode::OK, &report)
}

/// A promotion that this caller sees. Only for threads that may wait.
pub(super) fn find(serving: &Serving, caller: &Caller, name: &str) -> Result<PromotionReport, Problem> {
    let id: RunId = named("promotion", name)?;
    let report = match serving.runner.promotion(id.as_str()) {
        Err(PromotionError::NoPromotion(_)) => Err(Problem::not_found("promotion", name)),
        found => found.map_err(|error| serving.failed(&error)),
    };
    let report = report?;
    let mut index = Index::open(serving.home()).map_err(|error| serving.failed(&error))?;
    match index.run_of(&viewer(caller), &report.run).map_err(|error| serving.failed(&error))? {
        Some(_) => Ok(shown(report)),
        None => Err(Problem::not_found("promotion", name)),
    }
}

/// The folder of the evidence is the host's to know.
pub(super) fn shown(report: PromotionReport) -> PromotionReport {
    PromotionReport { evidence: format!("/v1/promotions/{}", report.promotion), ..report }
}

/// Ask that an artifact takes effect
///
/// It is looked at and checked at once, and then waits for the persons who approve. Asked again it goes on where it stands; nothing is done twice.
#[utoipa::path(post, path = "/v1/promotions", operation_id = "create_promotion", tag = "promotions",
    request_body(content = ref("#/components/schemas/PromotionBody"), content_type = "application/json"),
    responses((status = 201, description = "As it stands", content_type = "application/json", body = ref("#/components/schemas/PromotionReport"))))]
async fn create(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Filter(NoFilter {}): Filter<NoFilter>,
    asked: Asked<PromotionBody>,
) -> Result<Response, Problem> {
    let (server, who, body) = (serving.clone(), caller.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let report = server.blocking(move |serving| promote(serving, &who, &body)).await?;
        let place = format!("/v1/promotions/{}", report.promotion);
        Ok(located(json(&server, StatusCode::CREATED, &report)?, &place))
    })
    .await
}

fn promote(serving: &Arc<Serving>, caller: &Caller, body: &PromotionBody) -> Result<PromotionReport, Problem> {
    let task = serving.work.begin(&caller.tenant)?;
    let artifact: Digest = body.artifact.0.parse().map_err(|error| Problem::value("artifact", error, "such as `sha256:` and 64 digits"))?;
    let target: TargetName = body.target.0.parse().map_err(|error| Problem::value("target", error, "as the operator names it"))?;
    let request = PromotionRequest {
        made: Some(made(serving, caller, &artifact, body)?),
        artifact,
        target,
        message: body.message.as_ref().map(|message| plain(&message.0)).transpose()?,
        is_again: body.again,
    };
    let attachments = Attachments { output: OutputTo::Report, progress: &mut Untold, cancel: Some(task.stop()) };
    serving.runner.promote(&request, attachments).map(shown).map_err(|error| refused(serving, &error))
}

/// The run that made it, and its path there, among those that this caller sees.
fn made(serving: &Serving, caller: &Caller, artifact: &Digest, body: &PromotionBody) -> Result<(RunId, String), Problem> {
    let mut index = Index::open(serving.home()).map_err(|error| serving.failed(&error))?;
    let mut made = index.made_of(&viewer(caller), artifact).map_err(|error| serving.failed(&error))?;
    let is_meant = |made: &ArtifactRow| {
        body.run.as_ref().is_none_or(|run| run.0 == made.run) && body.path.as_ref().is_none_or(|path| path.0 == made.path)
    };
    made.retain(is_meant);
    let first = made.first().ok_or_else(|| {
        Problem::value("artifact", format!("no run here made `{artifact}` like this"), "see GET /v1/runs/{run}/artifacts")
    })?;
    if made.iter().any(|other| other.path != first.path) {
        return Err(Problem::value("artifact", "these bytes were made under several names", "say which is meant: `run` and `path`"));
    }
    Ok((first.run.parse().map_err(|error| serving.failed(&error))?, first.path.clone()))
}

/// The words of a person, which become those of a commit.
fn plain(text: &str) -> Result<String, Problem> {
    let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    match !text.trim().is_empty() && text.len() <= 8192 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => {
            Err(Problem::value("message", "it must be text of at most 8192 bytes, without control characters", "such as `Fix the totals`"))
        }
    }
}

/// What policy and the registry say no to, in their words; anything else is ours.
pub(super) fn refused(serving: &Serving, error: &PromotionError) -> Problem {
    match error {
        PromotionError::NoTarget { .. } => Problem::value("target", error, error.hint()),
        PromotionError::NotTaken { .. } | PromotionError::Unfit(_) | PromotionError::NoCheck { .. } => {
            Problem::new(Code::PromotionRefused, error.to_string(), error.hint())
        }
        PromotionError::Registry(registry) if !matches!(registry, RegistryError::Store(_)) => {
            Problem::new(Code::AgentRefused, registry.to_string(), registry.hint())
        }
        PromotionError::Interrupted => crate::work::stopping(),
        other => serving.failed(other),
    }
}
