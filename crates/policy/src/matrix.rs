//! The capability matrix: profile × capability, with the five safe defaults first. It is the bound itself, printed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact_kind::ArtifactKind;
use crate::capabilities::Capabilities;
use crate::choices::{Execution, Inputs, PackageMode};
use crate::field::Field;
use crate::profile::{Bound, Profile};
use crate::target::{Place, Target};

/// One of the five safe defaults: what people fear most, and what this set of profiles does about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SafeDefault {
    /// The action.
    pub action: String,
    /// The rule that holds for every profile shown.
    pub rule: String,
    /// The answer for each profile, in the order of the columns.
    pub answers: Vec<String>,
}

/// One capability over all profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// The capability.
    pub capability: String,
    /// The value for each profile, in the order of the columns.
    pub values: Vec<String>,
}

/// The matrix as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The profiles, by name.
    pub profiles: Vec<String>,
    /// What each profile is for.
    pub summaries: Vec<String>,
    /// The five safe defaults.
    pub safe_defaults: Vec<SafeDefault>,
    /// The capabilities.
    pub rows: Vec<MatrixRow>,
}

impl Matrix {
    /// The matrix of some profiles under a ceiling, and of where their artifacts may go. `missing` says what of a profile the program at hand does not have.
    pub fn of<'t>(
        ceiling: &Bound,
        targets: impl IntoIterator<Item = &'t Target>,
        profiles: &[Profile],
        missing: impl Fn(&Profile) -> Option<String>,
    ) -> Self {
        let runs = MatrixRow {
            capability: "runs in this version".to_owned(),
            values: profiles.iter().map(|p| missing(p).map_or_else(|| "yes".to_owned(), |what| format!("no: needs {what}"))).collect(),
        };
        let bounds: Vec<Capabilities> = profiles.iter().map(|p| ceiling.meet(&p.bound)).collect();
        let row = |field: Field| MatrixRow { capability: field.to_string(), values: bounds.iter().map(|b| cell(b, field)).collect() };
        let target = |target: &Target| MatrixRow {
            capability: format!("promotion to {}", in_words(target)),
            values: profiles.iter().zip(&bounds).map(|(profile, bound)| goes_to(target, profile, bound)).collect(),
        };
        let promotions: Vec<MatrixRow> = targets.into_iter().map(target).collect();
        let default = |action: &str, rule: &str, answer: fn(&Capabilities) -> String| SafeDefault {
            action: action.to_owned(),
            rule: rule.to_owned(),
            answers: bounds.iter().map(answer).collect(),
        };
        Self {
            profiles: profiles.iter().map(|p| p.name.to_string()).collect(),
            summaries: profiles.iter().map(|p| p.summary.clone()).collect(),
            safe_defaults: vec![
                default("parse a local CSV", "allowed inside the sandbox", parse_csv),
                default("install an arbitrary package", "only from an allowlist", install),
                default("read a host secret", "denied: the host's tree is not there", |_| "denied".to_owned()),
                default("call a production API", "only through a governed tool", call_api),
                default("deploy generated code", "approval, and a tool outside the sandbox", deploy),
            ],
            rows: std::iter::once(runs).chain(Field::all().map(row)).chain(promotions).collect(),
        }
    }
}

impl Matrix {
    /// The same of some profiles alone, in the order in which they are named. The error is the first name that stands for no profile of it.
    pub fn only<'n>(&self, names: &'n [String]) -> Result<Self, &'n str> {
        let column = |name: &'n String| self.profiles.iter().position(|profile| profile == name).ok_or(name.as_str());
        let columns = names.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let chosen = |cells: &[String]| columns.iter().map(|at| cells.get(*at).cloned().unwrap_or_default()).collect::<Vec<_>>();
        let default = |default: &SafeDefault| SafeDefault { answers: chosen(&default.answers), ..default.clone() };
        let row = |row: &MatrixRow| MatrixRow { values: chosen(&row.values), ..row.clone() };
        Ok(Self {
            profiles: chosen(&self.profiles),
            summaries: chosen(&self.summaries),
            safe_defaults: self.safe_defaults.iter().map(default).collect(),
            rows: self.rows.iter().map(row).collect(),
        })
    }
}

/// A target as the head of its row.
fn in_words(target: &Target) -> String {
    match &target.place {
        Place::Git { branch, .. } => format!("{} (branch {branch})", target.name),
        Place::Directory { .. } => format!("{} (folder)", target.name),
    }
}

/// Which kinds of artifacts go from a profile to a target, and under whose approval.
fn goes_to(target: &Target, profile: &Profile, bound: &Capabilities) -> String {
    let kinds: Vec<&str> = ArtifactKind::ALL
        .iter()
        .filter(|kind| bound.promotions.allows(kind) && target.takes(**kind, profile.name.as_str()))
        .map(|kind| kind.word())
        .collect();
    match kinds.as_slice() {
        [] => "none".to_owned(),
        kinds if target.protected.is_empty() => format!("{}: by {}", kinds.join(", "), target.consent),
        kinds => format!("{}: by {}; protected paths also by {}", kinds.join(", "), target.consent, target.protected_consent),
    }
}

/// A limit means nothing where nothing executes.
fn cell(bound: &Capabilities, field: Field) -> String {
    match (bound.execution, field) {
        (
            Execution::None,
            Field::Image | Field::Limit(_) | Field::Grades | Field::Spawn | Field::Kernel | Field::Storage | Field::State,
        ) => "–".to_owned(),
        (Execution::None | Execution::Commands, _) => bound.show(field),
    }
}

fn deploy(bound: &Capabilities) -> String {
    match bound.promotions.is_none() {
        true => "denied: nothing is promoted",
        false => "approval",
    }
    .to_owned()
}

fn parse_csv(bound: &Capabilities) -> String {
    match (bound.execution, bound.inputs) {
        (Execution::Commands, Inputs::Named) => "allowed",
        (Execution::Commands, Inputs::None) => "no inputs",
        (Execution::None, Inputs::None | Inputs::Named) => "no execution",
    }
    .to_owned()
}

fn install(bound: &Capabilities) -> String {
    match bound.packages.most() {
        PackageMode::None => "denied",
        PackageMode::Locked => "locked only",
        PackageMode::Allowlist => "allowlist",
        PackageMode::Open => "OPEN (a conscious choice)",
    }
    .to_owned()
}

fn call_api(bound: &Capabilities) -> String {
    match (bound.tools.is_none(), bound.network.is_none()) {
        (true, true) => "denied",
        (false, true) => "governed tools",
        (true, false) => "listed destinations only",
        (false, false) => "governed tools; listed destinations",
    }
    .to_owned()
}
