//! `ringfence agent`: add, submit, ls, show, suspend, resume, retire. What is possible when is the registry's to say.

mod elsewhere;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ringfence_control::{
    Added, AgentState, Agents, ApprovalError, Approvals, ProfileUsage, RegisteredAgent, RegistryError, Revision, RevisionState, read_text,
};
use ringfence_policy::{AgentId, AgentRecord};
use serde::{Deserialize, Serialize};

use super::Context;
use super::out::{self, Failure, parsed};

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Make a draft of what a file says; an agent that is active serves on until the draft is approved
    #[command(after_help = "Example:\n  ringfence agent add report-writer.toml")]
    Add {
        /// The agent, in TOML
        file: PathBuf,
    },
    /// Let an agent's draft wait for approval
    Submit {
        /// The agent
        id: String,
    },
    /// List agents
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print an agent, its revisions, and what it was granted beside what it ever used
    #[command(after_help = "Example:\n  ringfence agent show report-writer")]
    Show {
        /// The agent
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let an agent not run for now
    Suspend {
        /// The agent
        id: String,
        /// Why, for those who come later
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Let a suspended agent wait for approval anew
    Resume {
        /// The agent
        id: String,
    },
    /// Let an agent never run again
    Retire {
        /// The agent
        id: String,
    },
}

pub(crate) fn run(context: &Context, arguments: &AgentArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere::run(context, &server, &arguments.command).map(|()| 0);
    }
    let home = context.home()?;
    let (agents, mut approvals) = (Agents::of(&home), Approvals::open(&home).map_err(refused)?);
    approvals.settle_agents().map_err(refused)?;
    match &arguments.command {
        AgentCommand::Add { file } => add(&agents, file)?,
        AgentCommand::Submit { id } => submit(context, &agents, &mut approvals, &agent_id(id)?)?,
        AgentCommand::Ls { json } => print_list(list(&agents)?, *json)?,
        AgentCommand::Show { id, json } => show(&agents, &agent_id(id)?, *json)?,
        AgentCommand::Suspend { id, reason } => stands(agents.suspend(&agent_id(id)?, reason.clone()))?,
        AgentCommand::Resume { id } => {
            let id = agent_id(id)?;
            stands(agents.resume(&id))?;
            ask(context, &mut approvals, &id)?;
        }
        AgentCommand::Retire { id } => stands(agents.retire(&agent_id(id)?))?,
    }
    Ok(0)
}

fn agent_id(text: &str) -> Result<AgentId, Failure> {
    parsed(text, "such as `report-writer`; see `ringfence agent ls`")
}

/// Lets the draft wait, and asks. What waits already is asked about again, if nobody is asked any more.
fn submit(context: &Context, agents: &Agents, approvals: &mut Approvals, id: &AgentId) -> Result<(), Failure> {
    let is_waiting = agents.pending(id).map_err(failed)?.is_some();
    let has_draft = agents.find(id).map_err(failed)?.revision(RevisionState::Draft).is_some();
    stands(if is_waiting && !has_draft { agents.find(id) } else { agents.submit(id) })?;
    ask(context, approvals, id)
}

/// Asks persons about what waits.
fn ask(context: &Context, approvals: &mut Approvals, id: &AgentId) -> Result<(), Failure> {
    let settings = context.settings(&context.home()?)?;
    let Some(approval) = approvals.ask_about(id, &settings).map_err(refused)? else { return Ok(()) };
    out::print(&format!(
        "  needs {}\n  see it:  ringfence approval show {approval}\n  decide:  ringfence approval approve {approval}\n",
        settings.agents
    ))
}

fn refused(error: ApprovalError) -> Failure {
    Failure::hinted(&error, error.hint())
}

fn failed(error: RegistryError) -> Failure {
    Failure::hinted(&error, error.hint())
}

fn add(agents: &Agents, file: &Path) -> Result<(), Failure> {
    let text = read_text(file).map_err(|e| Failure::new(format!("reading `{}`: {e}", file.display()), "name a file that you can read"))?;
    let record = AgentRecord::parse(&file.to_string_lossy(), &text).map_err(|e| Failure::new(&e, e.fix.clone()))?;
    let (agent, added) = agents.add(&record).map_err(failed)?;
    let id = &agent.id;
    out::print(&match added {
        Added::Draft(number) => {
            format!("agent `{id}`: revision {number} is a draft; `ringfence agent submit {id}` lets it wait for approval\n")
        }
        Added::Unchanged(number, state) => format!("agent `{id}`: nothing changed since revision {number}, which is {state}\n"),
    })
}

/// One line on where an agent is after a step.
fn stands(agent: Result<RegisteredAgent, RegistryError>) -> Result<(), Failure> {
    let agent = agent.map_err(failed)?;
    let waits = agent.revision(RevisionState::Pending).filter(|_| agent.state != AgentState::Retired);
    let waits = waits.map(|revision| format!("; revision {} waits for approval, version {}", revision.number, revision.version));
    out::print(&format!("agent `{}` is {}{}\n", agent.id, agent.state, waits.unwrap_or_default()))
}

/// An agent in a list.
#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(alias = "agent")]
    id: String,
    state: AgentState,
    name: String,
    owner: String,
    team: String,
    profiles: Vec<String>,
    review_by: Option<String>,
    revision: u32,
    version: String,
    /// True while a revision waits for approval.
    is_waiting: bool,
}

fn row(agents: &Agents, agent: &RegisteredAgent) -> Result<Row, Failure> {
    let (revision, record) = current(agents, agent)?;
    let profiles = record.profiles.named().map(ToString::to_string).collect::<Vec<_>>();
    Ok(Row {
        id: agent.id.to_string(),
        state: agent.state,
        name: record.name.clone(),
        owner: record.owner.to_string(),
        team: record.team.to_string(),
        profiles: if profiles.is_empty() { vec!["*".to_owned()] } else { profiles },
        review_by: record.review_by.map(|date| date.to_string()),
        revision: revision.number,
        version: revision.version.to_string(),
        is_waiting: agent.state != AgentState::Retired && agent.revision(RevisionState::Pending).is_some(),
    })
}

/// The revision that serves, or else the newest.
fn current<'a>(agents: &Agents, agent: &'a RegisteredAgent) -> Result<(&'a Revision, AgentRecord), Failure> {
    let revision = agent.current().ok_or_else(|| failed(RegistryError::Unknown(agent.id.clone())))?;
    let record = agents.record(agent, revision).map_err(failed)?;
    Ok((revision, record))
}

fn list(agents: &Agents) -> Result<Vec<Row>, Failure> {
    agents.all().map_err(failed)?.iter().map(|agent| row(agents, agent)).collect()
}

fn print_list(rows: Vec<Row>, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return out::print_json(&rows);
    }
    let cells = |row: Row| {
        let state = if row.is_waiting && row.state == AgentState::Active { "active, one waits".to_owned() } else { row.state.to_string() };
        let cells = [row.id, state, row.owner, row.team, row.profiles.join(", "), row.review_by.unwrap_or_else(|| "never".into())];
        cells.iter().map(|text| out::harmless(text)).collect()
    };
    out::print(&out::table(&["agent", "state", "owner", "team", "profiles", "review by"], rows.into_iter().map(cells).collect()))
}

/// All about one agent.
#[derive(Serialize)]
struct View<'a> {
    #[serde(flatten)]
    agent: &'a RegisteredAgent,
    current: Row,
    usage: Vec<ProfileUsage>,
}

fn show(agents: &Agents, id: &AgentId, is_json: bool) -> Result<(), Failure> {
    let agent = agents.find(id).map_err(failed)?;
    let usage = agents.usage(&agent).map_err(failed)?;
    if is_json {
        return out::print_json(&View { agent: &agent, current: row(agents, &agent)?, usage });
    }
    let (revision, _) = current(agents, &agent)?;
    let mut text = format!("agent `{}` is {}\n\n{}\n", agent.id, agent.state, revision.text());
    text.push_str(&out::table(&["revision", "state", "written", "activated", "approval", "version"], revisions(&agent)));
    text.push_str(&out::table(&["profile", "granted", "runs", "last run", ""], usage.iter().map(used).collect()));
    for deed in agent.history.iter().filter(|deed| deed.reason.is_some()) {
        let reason = out::harmless(deed.reason.as_deref().unwrap_or_default());
        text.push_str(&format!("{}  {}: {reason}\n", deed.at, deed.action));
    }
    out::print(&text)
}

fn revisions(agent: &RegisteredAgent) -> Vec<Vec<String>> {
    let none = || "-".to_owned();
    let cells = |revision: &Revision| {
        vec![
            revision.number.to_string(),
            revision.state.to_string(),
            revision.made_at.clone(),
            revision.activated_at.clone().unwrap_or_else(none),
            out::harmless(revision.approval.as_deref().unwrap_or("-")),
            revision.version.to_string(),
        ]
    };
    agent.revisions.iter().map(cells).collect()
}

fn used(usage: &ProfileUsage) -> Vec<String> {
    let last = usage.last_run_at.clone().unwrap_or_else(|| "never".into());
    vec![
        out::harmless(&usage.profile),
        if usage.is_granted { "yes" } else { "no" }.into(),
        usage.runs.to_string(),
        last,
        if usage.is_stale { "stale" } else { "" }.into(),
    ]
}
