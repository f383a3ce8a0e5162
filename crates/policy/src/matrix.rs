//! The capability matrix: profile × capability, with the five safe defaults first. It is the bound itself, printed.

use serde::Serialize;

use crate::capabilities::Capabilities;
use crate::choices::{Execution, Inputs, PackageMode};
use crate::field::Field;
use crate::profile::{Bound, Profile};

/// One of the five safe defaults: what people fear most, and what this set of profiles does about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SafeDefault {
    /// The action.
    pub action: String,
    /// The rule that holds for every profile shown.
    pub rule: String,
    /// The answer for each profile, in the order of the columns.
    pub answers: Vec<String>,
}

/// One capability over all profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatrixRow {
    /// The capability.
    pub capability: String,
    /// The value for each profile, in the order of the columns.
    pub values: Vec<String>,
}

/// The matrix as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// The matrix of some profiles under a ceiling. `missing` says what of a profile the program at hand does not have.
    pub fn of(ceiling: &Bound, profiles: &[Profile], missing: impl Fn(&Profile) -> Option<String>) -> Self {
        let runs = MatrixRow {
            capability: "runs in this version".to_owned(),
            values: profiles.iter().map(|p| missing(p).map_or_else(|| "yes".to_owned(), |what| format!("no: needs {what}"))).collect(),
        };
        let bounds: Vec<Capabilities> = profiles.iter().map(|p| ceiling.meet(&p.bound)).collect();
        let row = |field: Field| MatrixRow { capability: field.to_string(), values: bounds.iter().map(|b| cell(b, field)).collect() };
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
                default("deploy generated code", "approval, and a tool outside the sandbox", |_| "approval".to_owned()),
            ],
            rows: std::iter::once(runs).chain(Field::all().map(row)).collect(),
        }
    }
}

/// A limit means nothing where nothing executes.
fn cell(bound: &Capabilities, field: Field) -> String {
    match (bound.execution, field) {
        (Execution::None, Field::Image | Field::Limit(_) | Field::Grades | Field::Spawn | Field::Kernel | Field::Storage) => "–".to_owned(),
        (Execution::None | Execution::Commands, _) => bound.show(field),
    }
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
