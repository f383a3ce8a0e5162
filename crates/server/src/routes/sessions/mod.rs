//! Sessions: sandboxes that stand, with commands, files and code contexts that come and go. A session is a run, and its record is found among the runs.

mod commands;
mod contexts;
mod create;
mod files;
mod keep;
mod look;
mod output;

use std::sync::Arc;

use ringfence_control::{Session, SessionError};
use ringfence_isolation::FileError;
use ringfence_store::{Caller, RunId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::named;
use crate::problem::{Code, Problem};
use crate::serving::Serving;

pub(crate) use commands::{CommandBody, CommandDone, CommandList, CommandView, InputBody as StdinBody, SignalBody, WindowBody};
pub(crate) use contexts::{CellBody, ContextBody, ContextList, ContextView};
pub(crate) use create::{SessionBody, TimeBody, kept_name};
pub(crate) use files::{FileBody, FileList, FileView, MoveBody, Written};
pub(crate) use look::{SessionList, SessionView};

pub(super) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(look::list, create::create))
        .routes(routes!(look::show, create::close))
        .routes(routes!(create::give_time))
        .routes(routes!(keep::pause))
        .routes(routes!(keep::snapshot))
        .routes(routes!(commands::list, commands::start))
        .routes(routes!(commands::show))
        .routes(routes!(output::follow))
        .routes(routes!(commands::feed))
        .routes(routes!(commands::signal))
        .routes(routes!(commands::resize))
        .routes(routes!(files::fetch, files::write, files::remove))
        .routes(routes!(files::stat))
        .routes(routes!(files::list))
        .routes(routes!(files::make))
        .routes(routes!(files::rename))
        .routes(routes!(files::watch))
        .routes(routes!(contexts::list, contexts::add))
        .routes(routes!(contexts::remove))
        .routes(routes!(contexts::restart))
        .routes(routes!(contexts::interrupt))
        .routes(routes!(contexts::execute))
}

/// A session that stands, if it is this tenant's; otherwise there is none.
fn standing(serving: &Serving, caller: &Caller, name: &str) -> Result<Arc<Session>, Problem> {
    let run: RunId = named("session", name)?;
    let found = serving.sessions.find(run.as_str()).filter(|session| session.about.tenant == caller.tenant);
    found.ok_or_else(|| Problem::not_found("session", name))
}

/// Why something could not be done in a session.
pub(crate) fn refused(serving: &Serving, error: SessionError) -> Problem {
    match error {
        SessionError::Refused(refusal) => {
            Problem::new(Code::PolicyRefused, format!("{} (rule of the {})", refusal.rule, refusal.layer), refusal.hint)
        }
        SessionError::Busy { .. } | SessionError::Commands { .. } => {
            Problem::new(Code::Overloaded, error.to_string(), "end what is not needed any more, or ask again in a while").retry_after(1)
        }
        SessionError::InputFull => Problem::new(Code::Conflict, error.to_string(), "send the rest once the command reads"),
        SessionError::Gone => Problem::new(Code::Conflict, error.to_string(), "GET /v1/runs/{run} says how; make another session"),
        SessionError::NoCommand { .. } => Problem::new(Code::NotFound, error.to_string(), "list its commands"),
        SessionError::Cell(error) => Problem::value("cell", error, "see docs/code-contexts.md for what a context takes"),
        SessionError::File(error) => file_problem(serving, &error),
        SessionError::Run(ringfence_control::RunError::Registry(registry))
            if !matches!(registry, ringfence_control::RegistryError::Store(_)) =>
        {
            Problem::new(Code::AgentRefused, registry.to_string(), registry.hint())
        }
        SessionError::NotBegun { .. } | SessionError::Run(_) | SessionError::Failed { .. } => serving.failed(&error),
    }
}

/// Why something could not be done with a file.
fn file_problem(serving: &Serving, error: &FileError) -> Problem {
    let (code, hint) = match error {
        FileError::Missing { .. } => (Code::NotFound, "list the directory that it should be in"),
        FileError::Exists { .. } => (Code::Conflict, "remove what is there first, or name another path"),
        FileError::Full { .. } => (Code::NoRoom, "remove what is not needed, or ask for a profile with a larger `disk`"),
        FileError::Denied { .. } => (Code::FileDenied, "name a path where the sandbox's user may do this, such as one in its home"),
        FileError::Path { .. }
        | FileError::IsFolder { .. }
        | FileError::NotFolder { .. }
        | FileError::Special { .. }
        | FileError::Unfit { .. } => (Code::InvalidValue, "name a path that is right for this"),
        FileError::TooMany { .. } => (Code::InvalidValue, "name a smaller part"),
        FileError::Failed { .. } => return serving.failed(error),
    };
    Problem::new(code, error.to_string(), hint)
}
