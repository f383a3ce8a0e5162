//! `approval --server`: what is asked, held against its digests here. Deciding is not done by a key of a server: a person signs, where the person's key is.

use ringfence_control::{ApprovalReport, ApprovalRequest};
use ringfence_evidence::Digest;
use serde::Deserialize;

use super::{ApprovalCommand, Shown, print_list, print_shown};
use crate::cli::Context;
use crate::cli::out::{self, Failure};
use crate::remote::Server;

#[derive(Debug, Deserialize)]
struct ApprovalList {
    approvals: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    subject: String,
    #[serde(flatten)]
    report: ApprovalReport,
}

#[derive(Debug, Deserialize)]
struct View {
    #[serde(flatten)]
    report: ApprovalReport,
    #[serde(default)]
    cause: String,
    #[serde(default)]
    execute_by: Option<String>,
    request: String,
    preview: String,
}

pub(super) fn run(context: &Context, server: &Server, command: &ApprovalCommand) -> Result<(), Failure> {
    match command {
        ApprovalCommand::Ls { all: false, standing: false, json } => {
            let list: ApprovalList = server.get(&["approvals"])?;
            print_list(list.approvals.into_iter().map(|item| (item.subject, item.report)).collect(), *json)
        }
        ApprovalCommand::Ls { standing: true, .. } => context.alone("approval ls --standing"),
        ApprovalCommand::Ls { .. } => context.alone("approval ls --all"),
        ApprovalCommand::Show { approval, json } => show(server, approval, *json),
        ApprovalCommand::Approve(_) => context.alone("approval approve"),
        ApprovalCommand::Deny(_) => context.alone("approval deny"),
        ApprovalCommand::Grant(_) => context.alone("approval grant"),
        ApprovalCommand::Withdraw { .. } => context.alone("approval withdraw"),
    }
}

fn show(server: &Server, approval: &str, is_json: bool) -> Result<(), Failure> {
    let view: View = server.get(&["approvals", approval])?;
    let request: ApprovalRequest = serde_json::from_str(&view.request).map_err(|e| server.not_understood(e))?;
    if request.approval != approval || request.preview != Digest::of(view.preview.as_bytes()) {
        let what = format!("what the server shows of approval {} is not what would be signed", out::harmless(approval));
        return Err(Failure::new(what, "decide nothing by it, and tell the operator of the server"));
    }
    let digest = Digest::of(view.request.as_bytes()).to_string();
    let View { report, cause, execute_by, preview, .. } = view;
    let preview = out::harmless_lines(&preview);
    let shown = Shown { state: report.state, cause, agreed: report.agreed, execute_by, digest, preview };
    print_shown(&request, &shown, is_json)
}
