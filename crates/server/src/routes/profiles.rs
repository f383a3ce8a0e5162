//! Classes of work: which there are, what each says, and all of them side by side.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{ProfileText, find_profile, missing_in_this_version};
use ringfence_policy::{Execution, Matrix, Profile, ProfileName, shipped};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::{By, Filter, Name, NoFilter, named};
use crate::problem::Problem;
use crate::reply::json;
use crate::serving::Serving;

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(matrix))
}

/// Profiles.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProfileList {
    /// The profiles.
    profiles: Vec<ProfileItem>,
}

/// A profile.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProfileItem {
    /// Its name.
    name: String,
    /// What it is for.
    summary: String,
    /// Whether it ships with the program; otherwise it is the operator's.
    is_shipped: bool,
    /// What keeps it from running here, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    /// Digest of its text.
    digest: String,
}

/// A profile with its text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProfileView {
    #[serde(flatten)]
    item: ProfileItem,
    /// Its text, in TOML.
    text: String,
}

impl ProfileItem {
    fn of(found: &ProfileText) -> Self {
        let profile = &found.profile;
        Self {
            name: profile.name.to_string(),
            summary: profile.summary.clone(),
            is_shipped: shipped().iter().any(|shipped| shipped.name == profile.name.as_str()),
            missing: missing(profile),
            digest: found.digest().to_string(),
        }
    }
}

/// What keeps a profile from running.
fn missing(profile: &Profile) -> Option<String> {
    match profile.bound.execution {
        Execution::None => Some("something to execute in: it has tools only".to_owned()),
        Execution::Commands => missing_in_this_version(&profile.bound),
    }
}

/// List profiles
#[utoipa::path(get, path = "/v1/profiles", operation_id = "list_profiles", tag = "profiles",
    responses((status = 200, description = "The profiles", content_type = "application/json", body = ref("#/components/schemas/ProfileList"))))]
async fn list(State(serving): State<Arc<Serving>>, By(_): By, Filter(NoFilter {}): Filter<NoFilter>) -> Result<Response, Problem> {
    let profiles = serving.blocking(|serving| Ok(all(serving).iter().map(ProfileItem::of).collect())).await?;
    json(&serving, StatusCode::OK, &ProfileList { profiles })
}

/// Those that ship, and those of the operator that read; one that does not is told to the operator.
fn all(serving: &Serving) -> Vec<ProfileText> {
    let shipped_names = shipped().iter().map(|shipped| shipped.name.to_owned());
    let own = fs::read_dir(serving.home().root().join("profiles")).into_iter().flatten().flatten();
    let own = own.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".toml").map(str::to_owned));
    let own: BTreeSet<String> =
        own.filter(|name| name.parse::<ProfileName>().is_ok() && shipped().iter().all(|s| s.name != name)).collect();
    let find = |name: String| find_profile(serving.home(), &name).map_err(|error| serving.log(&format!("profile `{name}`: {error}"))).ok();
    shipped_names.chain(own).filter_map(find).collect()
}

/// Show a profile
#[utoipa::path(get, path = "/v1/profiles/{profile}", operation_id = "show_profile", tag = "profiles",
    params(("profile" = String, Path, description = "Its name")),
    responses((status = 200, description = "The profile", content_type = "application/json", body = ref("#/components/schemas/ProfileView"))))]
async fn show(
    State(serving): State<Arc<Serving>>,
    By(_): By,
    Name(name): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let name: ProfileName = named("profile", &name)?;
    let found = serving.blocking(move |serving| match find_profile(serving.home(), name.as_str()) {
        Err(ringfence_control::RunError::NoProfile { .. }) => Err(Problem::not_found("profile", name.as_str())),
        found => found.map_err(|error| serving.failed(&error)),
    });
    let found = found.await?;
    json(&serving, StatusCode::OK, &ProfileView { item: ProfileItem::of(&found), text: found.text })
}

/// Show what each profile may do, the five safe defaults first
#[utoipa::path(get, path = "/v1/matrix", operation_id = "show_matrix", tag = "profiles",
    responses((status = 200, description = "Profile by capability", content_type = "application/json", body = ref("#/components/schemas/Matrix"))))]
async fn matrix(State(serving): State<Arc<Serving>>, By(_): By, Filter(NoFilter {}): Filter<NoFilter>) -> Result<Response, Problem> {
    let profiles = serving.blocking(|serving| Ok(all(serving).into_iter().map(|found| found.profile).collect::<Vec<_>>())).await?;
    let settings = serving.runner.settings();
    json(&serving, StatusCode::OK, &Matrix::of(&settings.ceiling, settings.targets.values(), &profiles, missing))
}
