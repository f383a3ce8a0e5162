//! The paths that are answered, one file for what belongs together. Each group is a router of its own, so that others can stand beside them.

mod agents;
mod approvals;
mod artifacts;
mod audit;
mod health;
mod profiles;
mod promotions;
mod runs;
mod sessions;
mod states;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use ringfence_control::{Audit, PromotionReport, RunReport};
use ringfence_policy::Matrix;
use utoipa_axum::router::OpenApiRouter;

use crate::gate::gate;
use crate::openapi::{self, Schemas};
use crate::problem::{Code, Problem, shortened};
use crate::serving::Serving;

pub(crate) use runs::{STATES as RUN_STATES, clear_handed_over};
pub(crate) use sessions::refused as session_problem;

/// A group of paths with their descriptions.
pub(crate) type Routes = OpenApiRouter<Arc<Serving>>;

/// Every path with its description.
pub(crate) fn all() -> Routes {
    OpenApiRouter::with_openapi(openapi::frame())
        .merge(health::routes())
        .merge(runs::routes())
        .merge(sessions::routes())
        .merge(states::routes())
        .merge(artifacts::routes())
        .merge(profiles::routes())
        .merge(audit::routes())
        .merge(approvals::routes())
        .merge(promotions::routes())
        .merge(agents::routes())
}

/// The forms of what is answered.
pub(crate) fn answered(schemas: &mut Schemas) {
    schemas.add::<health::Health>("Health");
    schemas.add::<RunReport>("RunReport");
    schemas.add::<runs::Begun>("Begun");
    schemas.add::<runs::RunList>("RunList");
    schemas.add::<runs::RunView>("RunView");
    schemas.add::<runs::EventList>("EventList");
    schemas.add::<runs::EvidenceBundle>("EvidenceBundle");
    schemas.add::<runs::ArtifactList>("ArtifactList");
    schemas.add::<sessions::SessionList>("SessionList");
    schemas.add::<sessions::SessionView>("SessionView");
    schemas.add::<states::StateList>("StateList");
    schemas.add::<states::StateView>("StateView");
    schemas.add::<sessions::CommandList>("CommandList");
    schemas.add::<sessions::CommandView>("CommandView");
    schemas.add::<sessions::CommandDone>("CommandDone");
    schemas.add::<sessions::FileList>("FileList");
    schemas.add::<sessions::FileView>("FileView");
    schemas.add::<sessions::Written>("Written");
    schemas.add::<sessions::ContextList>("ContextList");
    schemas.add::<sessions::ContextView>("ContextView");
    schemas.add::<profiles::ProfileList>("ProfileList");
    schemas.add::<profiles::ProfileView>("ProfileView");
    schemas.add::<Matrix>("Matrix");
    schemas.add::<Audit>("Audit");
    schemas.add::<approvals::ApprovalList>("ApprovalList");
    schemas.add::<approvals::ApprovalView>("ApprovalView");
    schemas.add::<approvals::Decided>("Decided");
    schemas.add::<promotions::PromotionList>("PromotionList");
    schemas.add::<PromotionReport>("PromotionReport");
    schemas.add::<agents::AgentList>("AgentList");
    schemas.add::<agents::AgentView>("AgentView");
}

/// The forms of what is sent.
pub(crate) fn sent(schemas: &mut Schemas) {
    schemas.add::<runs::RunBody>("RunBody");
    schemas.add::<sessions::SessionBody>("SessionBody");
    schemas.add::<sessions::TimeBody>("TimeBody");
    schemas.add::<sessions::CommandBody>("CommandBody");
    schemas.add::<sessions::StdinBody>("StdinBody");
    schemas.add::<sessions::SignalBody>("SignalBody");
    schemas.add::<sessions::WindowBody>("WindowBody");
    schemas.add::<sessions::FileBody>("FileBody");
    schemas.add::<sessions::MoveBody>("MoveBody");
    schemas.add::<sessions::ContextBody>("ContextBody");
    schemas.add::<sessions::CellBody>("CellBody");
    schemas.add::<audit::AuditBody>("AuditBody");
    schemas.add::<approvals::DecisionBody>("DecisionBody");
    schemas.add::<promotions::PromotionBody>("PromotionBody");
}

/// What answers requests: every path, behind the gate.
pub(crate) fn router(serving: &Arc<Serving>) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .merge(crate::e2b::routes())
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(serving.clone(), gate))
        .layer(from_fn_with_state(serving.clone(), crate::e2b::data_plane))
        .with_state(serving.clone())
}

async fn no_path(request: Request) -> Problem {
    let detail = format!("there is no path `{}` here", shortened(request.uri().path()));
    Problem::new(Code::NotFound, detail, "see /v1/openapi.json for the paths that there are")
}

async fn no_method(request: Request) -> Problem {
    let detail = format!("`{}` is not a method of this path", shortened(request.method().as_str()));
    Problem::new(Code::MethodNotAllowed, detail, "`Allow` names those that there are")
}
