//! Keeping a session as it is while it goes on.

use std::io;
use std::sync::Arc;

use ringfence_isolation::Trees;
use ringfence_store::{StateAbout, StateRow, StoreError};

use super::Sessions;
use super::error::SessionError;
use super::session::{Saving, Session};
use crate::report::RunReport;
use crate::run::Runner;
use crate::state::{self, KeepError};

impl Sessions {
    /// Keeps the files of a session as a snapshot, with which any number of sessions can begin (`from` of their request). Commands run on meanwhile, and
    /// each file is kept as it was when it was read. `about` is kept with them.
    ///
    /// # Errors
    /// Nothing of its run may outlive it, it is being saved already, its files do not fit, or it has ended.
    pub async fn snapshot(&self, session: &Arc<Session>, about: serde_json::Value) -> Result<StateRow, SessionError> {
        let saving = session.begin_saving()?;
        let trees = session.trees().await?;
        let (runner, session) = (self.runner.clone(), session.clone());
        let saved = tokio::task::spawn_blocking(move || save(&runner, &session, &trees, about, saving)).await;
        saved.map_err(|error| failed(io::Error::other(error)))?
    }

    /// Ends a session and keeps its files, with `about`; answers as [`close`](Session::close).
    ///
    /// # Errors
    /// Nothing of its run may outlive it, or its tenant keeps as much as it may: it goes on then.
    pub async fn pause(&self, session: &Session, about: serde_json::Value) -> Result<Option<Arc<RunReport>>, SessionError> {
        let (states, tenant) = (self.runner.states(), session.said.tenant.clone());
        let room = tokio::task::spawn_blocking(move || states.room(tenant.as_deref(), None)).await;
        room.map_err(|error| failed(io::Error::other(error)))?.map_err(|source| not_kept(source.into()))?;
        session.pause(about).await
    }
}

/// Copies, on a thread that may wait for the disk, and writes it down.
fn save(runner: &Runner, session: &Session, trees: &Trees, about: serde_json::Value, _saving: Saving) -> Result<StateRow, SessionError> {
    let said = StateAbout { metadata: session.about.metadata.clone(), about, ..session.said.clone() };
    let states = runner.states();
    let saved = state::save(&states, trees, said, state::most_bytes(&session.allowed), &mut |_| Ok(()));
    let saved = saved.map_err(not_kept)?;
    match state::saved(session.journal(), &saved) {
        Ok(()) => Ok(saved.row),
        // What does not stand on record is not kept.
        Err(error) => {
            let removed = states.remove(&saved.row);
            Err(removed.err().map_or_else(|| SessionError::Run(error.into()), |error| SessionError::Run(error.into())))
        }
    }
}

fn not_kept(error: KeepError) -> SessionError {
    match error {
        KeepError::Store { source: full @ StoreError::StatesFull { .. } } => SessionError::Refused(state::full(&full)),
        other => failed(io::Error::other(other)),
    }
}

fn failed(source: io::Error) -> SessionError {
    SessionError::Failed { act: "save the session", source }
}
