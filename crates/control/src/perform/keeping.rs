//! The state of a run on its line: found and held, laid out before anything runs, and kept once every process is dead.

use std::io;

use ringfence_evidence::{ClosedBy, Event, RunEnd};
use ringfence_isolation::{Remains, Sandbox};
use ringfence_policy::State;
use ringfence_store::StateKind;

use super::{Halt, Performance, failed_at};
use crate::inside::Inside;
use crate::request::Progress;
use crate::state::{NoState, RunState, Words};
use crate::{ending, record, state};

impl Performance<'_> {
    /// What the run begins with of an earlier one. Nobody else has it from here on.
    pub(super) fn state(&mut self) -> Result<RunState, Halt> {
        if let Some(name) = &self.request.state {
            self.report.state().name = Some(name.to_string());
        }
        match RunState::of(self.runner.states(), self.request, self.journal.run()) {
            Ok(state) => Ok(state),
            Err(NoState::Refused(refusal)) => Err(Halt::Ended(record::refused(self.journal, &refusal)?)),
            Err(NoState::Failed(error)) => Err(failed_at("find the state")(io::Error::other(format!("{error}; hint: {}", error.hint())))),
        }
    }

    /// Lays out what the run begins with.
    pub(super) fn restore(&mut self, state: &RunState, sandbox: &Sandbox<'_>) -> Result<(), Halt> {
        let trees = sandbox.trees().map_err(failed_at("restore the state"))?;
        let restored = state.restore(&trees, &mut |_| self.stop.go_on());
        if restored.is_err() && self.stop.was_asked() {
            return Err(Halt::Ended(self.stop.end(self.report)));
        }
        if let Some(row) = restored.map_err(io::Error::other).map_err(failed_at("restore the state"))? {
            state::restored(&self.journal.writer(), row)?;
            self.report.state().restored = Some(state::report_of(row));
        }
        Ok(())
    }

    /// Keeps what the run leaves, where it has a name or was paused. Every process is dead by now. A pause that kept nothing is none.
    pub(super) fn keep(&mut self, state: &RunState, remains: &Remains, end: RunEnd, progress: &mut dyn Progress) -> Result<RunEnd, Halt> {
        if state.is_named() {
            let kept = match state::why_not_kept(&end) {
                Some(reason) => Err(reason),
                None => self.save(state, remains, StateKind::Named)?,
            };
            if let Err(reason) = kept {
                self.tell_not_kept(reason, &end, progress)?;
            }
        }
        if end != (RunEnd::Closed { by: ClosedBy::Pause }) {
            return Ok(end);
        }
        match self.save(state, remains, StateKind::Paused)? {
            Ok(()) => Ok(end),
            Err(cause) => {
                self.journal.append(Event::StateNotSaved { name: None, reason: cause.clone() })?;
                self.report.exit_status = ending::REFUSED;
                Ok(RunEnd::Failed { step: "keep the files of the session".into(), cause: Some(cause) })
            }
        }
    }

    /// Saves as one kind; the inner error says why it could not be done.
    fn save(&mut self, state: &RunState, remains: &Remains, kind: StateKind) -> Result<Result<(), String>, Halt> {
        let allowed = &self.grant.capabilities;
        if allowed.state == State::None {
            return Ok(Err("nothing that is written may outlive the run; set `state = \"named\"` under [files]".into()));
        }
        let words = if let Inside::Session(keeper) = self.inside { keeper.words() } else { Words::default() };
        let said = state.about(self.request, self.journal.run(), kind, words);
        let trees = remains.trees().map_err(failed_at("keep the state"))?;
        match state.save(&trees, said, state::most_bytes(allowed), &mut |_| self.stop.go_on()) {
            Ok(saved) => {
                state::saved(&self.journal.writer(), &saved)?;
                self.report.state().saved.push(state::report_of(&saved.row));
                Ok(Ok(()))
            }
            Err(_) if self.stop.was_asked() => Ok(Err("the run was interrupted while its files were kept".into())),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// The old state stays, and whoever asked is told. A program that ended well has not done what was asked then.
    fn tell_not_kept(&mut self, reason: String, end: &RunEnd, progress: &mut dyn Progress) -> Result<(), Halt> {
        let name = self.request.state.as_ref().map(ToString::to_string);
        let warning = format!("state `{}` stays as it was: {reason}", name.as_deref().unwrap_or_default());
        self.journal.append(Event::StateNotSaved { name, reason })?;
        progress.warn(&warning);
        self.report.warnings.push(warning);
        if self.report.exit_status == 0 && matches!(end, RunEnd::Exited { .. } | RunEnd::Closed { .. }) {
            self.report.exit_status = ending::INCOMPLETE;
        }
        Ok(())
    }
}
