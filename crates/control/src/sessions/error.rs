//! Why something could not be done in a session.

use ringfence_evidence::RunEnd;
use ringfence_isolation::FileError;
use ringfence_policy::Refusal;

use crate::cells::ContextError;
use crate::error::RunError;

/// Why something could not be done in a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Policy or the host said no. The run is on record, sealed as refused.
    #[error("{}", .0.rule)]
    Refused(Refusal),
    /// The sandbox could not be made. The run is on record, sealed with this end.
    #[error("the session of run {run} could not begin: {}", failure(.end))]
    NotBegun {
        /// The run.
        run: String,
        /// How it ended.
        end: RunEnd,
    },
    /// The record, the registry or the home is not as it must be.
    #[error(transparent)]
    Run(#[from] RunError),
    /// As many sessions as the server keeps.
    #[error("{most} sessions are open, which is the most that this server keeps")]
    Busy {
        /// The most.
        most: usize,
    },
    /// It has ended.
    #[error("the session has ended")]
    Gone,
    /// No such command.
    #[error("no command {which} runs in the session")]
    NoCommand {
        /// By which word it was looked for.
        which: String,
    },
    /// As many commands as a session has.
    #[error("the session has {most} commands, {what}, which is the most")]
    Commands {
        /// The most.
        most: usize,
        /// Of which.
        what: &'static str,
    },
    /// The command does not read what it is given.
    #[error("the command does not read its input: a mebibyte waits for it")]
    InputFull,
    /// A cell that no context takes.
    #[error(transparent)]
    Cell(#[from] ContextError),
    /// Something with a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel's word.
    #[error("could not {act}: {source}")]
    Failed {
        /// What was tried.
        act: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

fn failure(end: &RunEnd) -> String {
    match end {
        RunEnd::Failed { step, cause: Some(cause) } => format!("{step}: {cause}"),
        RunEnd::Failed { step, cause: None } => step.clone(),
        RunEnd::Limit { limit } => format!("the {limit} limit was met"),
        _ => "it ended at once".into(),
    }
}
