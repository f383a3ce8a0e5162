//! `ringfence approval`: what persons are asked, shown exactly, and what they say. Whoever decides does it with a key of their own.

mod elsewhere;
mod standing;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_control::{Agents, ApprovalError, ApprovalReport, ApprovalRequest, Approvals, Matter, Person, Persons, moment_in_words};
use ringfence_evidence::SigningKey;
use ringfence_store::{Home, Verdict};

use super::out::{self, Failure};
use super::person::person_name;
use super::{Context, promote};

/// Arguments of `approval`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalArguments {
    #[command(subcommand)]
    command: ApprovalCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalCommand {
    /// List what can still be decided or used
    Ls {
        /// Also what is over
        #[arg(long)]
        all: bool,
        /// Standing grants instead
        #[arg(long, conflicts_with = "all")]
        standing: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show exactly what will happen
    #[command(after_help = "Example:\n  ringfence approval show 01kbdz9xk3v8p5r0q2n7m4t6w1")]
    Show {
        /// The approval
        approval: String,
        /// Print the request as it is signed
        #[arg(long)]
        json: bool,
    },
    /// Say yes; what everybody has agreed to who must is done at once
    #[command(after_help = "Example:\n  ringfence approval approve 01kbdz9xk3v8p5r0q2n7m4t6w1 --as anna")]
    Approve(DecideArguments),
    /// Say no, also after a yes, until it is used
    #[command(
        after_help = "Example:\n  ringfence approval deny 01kbdz9xk3v8p5r0q2n7m4t6w1 --as anna --reason 'the totals are rounded twice'"
    )]
    Deny(DecideArguments),
    /// Say yes ahead, for what is alike: one target, one agent, one kind, so many times, so long
    #[command(after_help = "Example:\n  ringfence approval grant --to reports --agent me --kind report --uses 10 --for 7d --as anna")]
    Grant(standing::GrantArguments),
    /// Withdraw a standing grant
    Withdraw {
        /// The grant
        grant: String,
    },
}

#[derive(Debug, Args)]
struct DecideArguments {
    /// The approval
    approval: String,
    #[command(flatten)]
    who: Who,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Only record the decision; `ringfence promote` does the rest
    #[arg(long)]
    later: bool,
}

/// Who decides, and with which key.
#[derive(Debug, Args)]
struct Who {
    /// Person who decides [default: the login user]
    #[arg(long = "as", value_name = "PERSON")]
    person: Option<String>,
    /// The person's private key [default: ringfence/PERSON.key in the XDG configuration folder]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Who {
    fn read(&self, context: &Context, home: &Home) -> Result<(Person, SigningKey), Failure> {
        let persons = Persons::of(home);
        let person = match &self.person {
            Some(name) => persons.find(&person_name(name)?),
            None => persons.login_user(),
        };
        let person = person.map_err(|e| Failure::hinted(&e, e.hint()))?;
        let file = self.key.clone().or_else(|| context.config.person_key(person.name.as_str()));
        let file = file.ok_or_else(|| Failure::new("there is no place for keys", "name the key: --key FILE"))?;
        let key = persons.read_key(&file, &person).map_err(|e| Failure::hinted(&e, e.hint()))?;
        Ok((person, key))
    }
}

pub(crate) fn run(context: &Context, arguments: &ApprovalArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere::run(context, &server, &arguments.command).map(|()| 0);
    }
    let home = context.home()?;
    let mut approvals = Approvals::open(&home).map_err(|e| failure(&e))?;
    approvals.settle_agents().map_err(|e| failure(&e))?;
    match &arguments.command {
        ApprovalCommand::Ls { standing: true, json, .. } => standing::list(&mut approvals, *json)?,
        ApprovalCommand::Ls { all, json, .. } => print_list(list(&mut approvals, *all)?, *json)?,
        ApprovalCommand::Show { approval, json } => show(&mut approvals, approval, *json)?,
        ApprovalCommand::Approve(arguments) => return decide(context, &home, &mut approvals, arguments, Verdict::Approve),
        ApprovalCommand::Deny(arguments) => return decide(context, &home, &mut approvals, arguments, Verdict::Deny),
        ApprovalCommand::Grant(arguments) => standing::give(context, &home, &mut approvals, arguments)?,
        ApprovalCommand::Withdraw { grant } => approvals.withdraw(grant).map_err(|e| failure(&e))?,
    }
    Ok(0)
}

fn failure(error: &ApprovalError) -> Failure {
    Failure::hinted(error, error.hint())
}

/// Approvals with what they are for.
fn list(approvals: &mut Approvals, is_all: bool) -> Result<Vec<(String, ApprovalReport)>, Failure> {
    let rows = approvals.list(!is_all).map_err(|e| failure(&e))?;
    let mut reports = Vec::new();
    for row in rows {
        // One that was altered is listed all the same: `show` says what is wrong with it.
        let (agreed, able) = approvals.find(&row.id).map(|asked| (asked.agreed, asked.able)).unwrap_or_default();
        reports.push((row.subject.clone(), ApprovalReport::of(&row, agreed, able)));
    }
    Ok(reports)
}

fn print_list(reports: Vec<(String, ApprovalReport)>, is_json: bool) -> Result<(), Failure> {
    if is_json {
        let values = reports.iter().map(|(subject, report)| serde_json::json!({ "subject": subject, "approval": report }));
        return out::print_json(&values.collect::<Vec<_>>());
    }
    let row = |(subject, report): (String, ApprovalReport)| {
        let needs = if report.paths.is_empty() { report.needs } else { format!("{}, for protected paths", report.needs) };
        vec![report.approval, out::harmless(&subject), needs, report.agreed.join(", "), report.state, report.decide_by]
    };
    out::print(&out::table(&["approval", "for", "needs", "agreed", "state", "decide by"], reports.into_iter().map(row).collect()))
}

fn show(approvals: &mut Approvals, id: &str, is_json: bool) -> Result<(), Failure> {
    let asked = approvals.find(id).map_err(|e| failure(&e))?;
    let shown = Shown {
        state: asked.row.state.word().to_owned(),
        cause: asked.row.cause,
        agreed: asked.agreed,
        execute_by: asked.row.execute_by.map(moment_in_words),
        digest: asked.row.digest,
        preview: asked.preview,
    };
    print_shown(&asked.request, &shown, is_json)
}

/// What is shown of an approval beside its request.
struct Shown {
    state: String,
    cause: String,
    agreed: Vec<String>,
    execute_by: Option<String>,
    digest: String,
    preview: String,
}

fn print_shown(request: &ApprovalRequest, shown: &Shown, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return out::print_json(request);
    }
    let mut text = format!("approval {}: {}\n", request.approval, out::harmless(&shown.state));
    if !shown.cause.is_empty() {
        text.push_str(&format!("  {}\n", out::harmless(&shown.cause)));
    }
    text.push_str(&format!("  needs      {}; until {}\n", request.consent, request.decide_by));
    let agreed = if shown.agreed.is_empty() { "nobody yet".to_owned() } else { out::harmless(&shown.agreed.join(", ")) };
    text.push_str(&format!("  agreed     {agreed}\n"));
    if let Some(until) = &shown.execute_by {
        text.push_str(&format!("  can be used until {}\n", out::harmless(until)));
    }
    if !request.paths().is_empty() {
        text.push_str(&format!("  this approval is for the protected paths alone: {}\n", request.paths().join(", ")));
    }
    text.push_str(&format!("  request    {}\n\n{}", shown.digest, shown.preview));
    out::print(&text)
}

fn decide(context: &Context, home: &Home, approvals: &mut Approvals, arguments: &DecideArguments, verdict: Verdict) -> Result<u8, Failure> {
    let (person, key) = arguments.who.read(context, home)?;
    let row = approvals.decide(&arguments.approval, &person, &key, verdict, &arguments.reason).map_err(|e| failure(&e))?;
    out::print(&format!("approval {}: {} says {}; it is {}\n", row.id, person.name, verdict, row.state))?;
    let asked = approvals.find(&row.id).map_err(|e| failure(&e))?;
    match asked.request.matter {
        Matter::Promotion { .. } if !arguments.later => {
            let runner = context.runner(home.clone())?;
            let status = promote::go_on(&runner, &row.subject, false)?;
            // A no that ended the promotion is what was asked for.
            Ok(if verdict == Verdict::Deny { 0 } else { status })
        }
        Matter::Agent { agent, .. } => {
            approvals.settle_agents().map_err(|e| failure(&e))?;
            let id = out::parsed(&agent, "")?;
            let state = Agents::of(home).find(&id).map_err(|e| Failure::hinted(&e, e.hint()))?.state;
            out::print(&format!("agent `{id}` is {state}\n")).map(|()| 0)
        }
        Matter::Promotion { .. } => Ok(0),
    }
}
