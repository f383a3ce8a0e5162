//! What the caller gets of a promotion: `--json` prints it.

use ringfence_store::{ApprovalRow, PromotionRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Asked, Content, Prepared};
use crate::moment;

/// A promotion as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromotionReport {
    /// The promotion.
    pub promotion: String,
    /// `checking`, `waiting` or `applying`; `applied`, `refused`, `failed`, `denied`, `expired` or `stale`.
    pub state: String,
    /// Why it ended, if not by taking effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// Digest of the artifact.
    pub artifact: String,
    /// Its path in the workspace that it left.
    pub path: String,
    /// The run that made it.
    pub run: String,
    /// The target.
    pub target: String,
    /// The promotion that it takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// The promotion that took it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<String>,
    /// What the target held when it was prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Content>,
    /// What it holds once it is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Content>,
    /// The approvals that it needs.
    pub approvals: Vec<ApprovalReport>,
    /// When it was asked for, RFC 3339 in UTC.
    pub asked_at: String,
    /// When it last changed.
    pub changed_at: String,
    /// The folder of its evidence.
    pub evidence: String,
}

/// An approval in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalReport {
    /// Its name.
    pub approval: String,
    /// How it stands.
    pub state: String,
    /// Who must agree, in words.
    pub needs: String,
    /// For an approval of its own: the paths that it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Who has agreed.
    pub agreed: Vec<String>,
    /// How many registered persons may decide about it now.
    pub able: usize,
    /// Until when it can be decided, RFC 3339 in UTC.
    pub decide_by: String,
}

impl ApprovalReport {
    /// An approval as it stands; `agreed` says whose yes counts, `able` how many may decide.
    pub fn of(row: &ApprovalRow, agreed: Vec<String>, able: usize) -> Self {
        let request: Option<crate::approvals::ApprovalRequest> = serde_json::from_str(&row.request).ok();
        Self {
            approval: row.id.clone(),
            state: row.state.word().to_owned(),
            needs: request.as_ref().map(|request| request.consent.to_string()).unwrap_or_default(),
            paths: request.map(|request| request.paths().to_vec()).unwrap_or_default(),
            agreed,
            able,
            decide_by: moment::in_words(row.decide_by),
        }
    }
}

impl PromotionReport {
    pub(super) fn of(
        row: &PromotionRow,
        asked: &Asked,
        prepared: Option<&Prepared>,
        approvals: Vec<ApprovalReport>,
        undone_by: Option<String>,
        evidence: String,
    ) -> Self {
        Self {
            promotion: row.id.clone(),
            state: row.state.word().to_owned(),
            cause: row.cause.clone(),
            artifact: row.artifact.clone(),
            path: asked.what.path.clone(),
            run: asked.what.run.clone(),
            target: row.target.clone(),
            undoes: row.undoes.clone(),
            undone_by,
            base: prepared.map(|prepared| prepared.base.clone()),
            result: prepared.map(|prepared| prepared.result.clone()),
            approvals,
            asked_at: moment::in_words(row.made_at),
            changed_at: moment::in_words(row.changed_at),
            evidence,
        }
    }
}
