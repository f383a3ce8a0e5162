//! Measuring from inside what a profile allows, one audit at a time: each lays bait on the host.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{Audit, AuditError, AuditRequest};
use ringfence_store::Caller;
use schemars::JsonSchema;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use super::runs::profile;
use crate::asked::{Asked, By, Filter, NoFilter, Wanted};
use crate::bounded::Text;
use crate::idempotency::once;
use crate::problem::{Code, Problem};
use crate::reply::json;
use crate::serving::Serving;

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(audit))
}

/// An audit that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditBody {
    /// The name of the profile.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9-]{0,63}$"))]
    profile: Text<1, 64>,
}

impl Wanted for AuditBody {
    const MOST_BYTES: usize = 4 << 10;
}

/// Audit a profile
///
/// Answers when everything has been measured, which takes some seconds.
#[utoipa::path(post, path = "/v1/audit", operation_id = "audit", tag = "profiles",
    request_body(content = ref("#/components/schemas/AuditBody"), content_type = "application/json"),
    responses((status = 200, description = "What was declared, beside what was measured", content_type = "application/json", body = ref("#/components/schemas/Audit"))))]
async fn audit(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Filter(NoFilter {}): Filter<NoFilter>,
    asked: Asked<AuditBody>,
) -> Result<Response, Problem> {
    let (server, who, body) = (serving.clone(), caller.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let turn = server.audits.clone().try_acquire_owned();
        let _turn = turn.map_err(|_| Problem::new(Code::Overloaded, "an audit is under way", "ask again in a while").retry_after(10))?;
        let audit = server.blocking(move |serving| measure(serving, &who, &body)).await?;
        json(&server, StatusCode::OK, &audit)
    })
    .await
}

fn measure(serving: &Arc<Serving>, caller: &Caller, body: &AuditBody) -> Result<Audit, Problem> {
    let task = serving.work.begin(&caller.tenant)?;
    let request = AuditRequest {
        profile: profile(serving, &body.profile.0)?,
        known_secrets: serving.known_secrets.clone(),
        homes: serving.homes.clone(),
        tenant: Some(caller.tenant.parse().map_err(|error| serving.failed(&error))?),
    };
    serving.runner.audit(&request, Some(task.stop())).map_err(|error| match &error {
        AuditError::Refused { .. } => Problem::new(Code::AuditRefused, error.to_string(), error.hint()),
        AuditError::Silent { end, .. } if end == "interrupted" => crate::work::stopping(),
        AuditError::Run(_) | AuditError::Promotion(_) | AuditError::Bait { .. } | AuditError::Blind(_) | AuditError::Silent { .. } => {
            serving.failed(&error)
        }
    })
}
