//! What is done with a grant: views, plan, sandbox, command, export. The sandbox is torn down on every path.

mod keeping;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ringfence_evidence::{Event, RunEnd};
use ringfence_isolation::{
    Capture, Command, Creation, Doors, EmptySandbox, End, ExportLimits, Identity, OsText, Plan, Remains, Sandbox, SandboxSpec, SetupError,
    Stdin, Streams, Traces, compile, lease_identity,
};
use ringfence_policy::{Glob, Grant, LimitKey};
use ringfence_store::{Journal, StateKind, StoreError};

use crate::doors::{DoorsAhead, Helpers, NoDoors, OpenDoors};
use crate::error::RunError;
use crate::images::{self, NoImage, Shown};
use crate::inside::{Inside, Keeper, Kept};
use crate::leaving::{Leaving, Sink};
use crate::pool::{Parked, Pattern};
use crate::recording::Recording;
use crate::report::{RunReport, grades};
use crate::request::{Attachments, OutputTo, Progress, RunRequest};
use crate::run::Runner;
use crate::state::{RunState, Words};
use crate::stop::Stop;
use crate::views::{self, NoViews, Views};
use crate::{ending, record};

/// Why the line of a run stops before its end.
enum Halt {
    /// The run has ended here; its record is sealed all the same.
    Ended(RunEnd),
    /// The record could not be kept.
    Broken(RunError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Broken(error.into())
    }
}

/// Ends the run at a step that failed.
fn failed_at<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Halt {
    move |error| Halt::Ended(RunEnd::Failed { step: step.to_owned(), cause: Some(error.into().to_string()) })
}

/// Performs a grant, and hands out what remains of the sandbox, which may still be ending. An error means that the record could not be kept; what
/// fails inside is an end of the run.
pub(crate) fn perform(
    runner: &Runner,
    grant: &Grant,
    request: &RunRequest,
    inside: &Inside<'_>,
    attachments: Attachments<'_>,
    journal: &mut Journal,
    report: &mut RunReport,
) -> Result<(RunEnd, Option<Remains>), RunError> {
    let mut performance = Performance { runner, grant, request, inside, stop: Stop::of(attachments.cancel), journal, report };
    let performed = performance.perform(attachments);
    performance.report.is_stopped = performance.stop.was_asked();
    match performed {
        Ok((end, remains)) => Ok((end, Some(remains))),
        Err(Halt::Ended(end)) => Ok((end, None)),
        Err(Halt::Broken(error)) => Err(error),
    }
}

/// One run on its way.
struct Performance<'a> {
    runner: &'a Runner,
    grant: &'a Grant,
    request: &'a RunRequest,
    inside: &'a Inside<'a>,
    stop: Stop<'a>,
    journal: &'a mut Journal,
    report: &'a mut RunReport,
}

impl Performance<'_> {
    fn perform(&mut self, attachments: Attachments<'_>) -> Result<(RunEnd, Remains), Halt> {
        record::granted(self.journal, self.grant)?;
        self.report.tier = self.grant.capabilities.tier.to_string();
        self.report.grades = grades(&self.runner.host, self.grant);
        let state = self.state()?;
        let since = SystemTime::now();
        let lease = lease_identity().map_err(failed_at("lease user ids"))?;
        let work = self.journal.work().to_owned();
        let views = self.views(&work, lease.identity, attachments.progress)?;
        let ahead = self.doors(attachments.progress)?;
        let doors =
            ahead.as_ref().map(DoorsAhead::inside).transpose().map_err(failed_at("read what this host trusts"))?.unwrap_or_default();
        let shown = self.image()?;
        let plan = self.plan(&views, &shown, &doors, lease.identity);
        let (end, remains) = match self.parked(&plan, &views, ahead.is_some(), &shown) {
            Some(parked) => self.in_parked(parked, &shown, &state)?,
            None => {
                record::creating(self.journal, &self.runner.host, self.grant, &plan, &shown)?;
                let empty = EmptySandbox::begin(&self.report.run, &self.runner.host.cgroups, &plan.group_limits, lease);
                let empty = empty.map_err(|error| self.no_sandbox(error))?;
                self.command(empty, &plan, ahead, &state, &attachments)?
            }
        };
        self.export(&Leaving { views: &views, remains: &remains, since, work: &work })?;
        let end = self.keep(&state, &remains, end, attachments.progress)?;
        Ok((end, remains))
    }

    /// What a sandbox that could not be made means for the run.
    fn no_sandbox(&mut self, error: SetupError) -> Halt {
        let SetupError { step, cause, hint, is_out_of_time, left } = error;
        self.report.warning = left.map(|left| format!("what run {} left cannot be removed yet: {left}", self.report.run));
        if self.stop.is_asked() {
            return Halt::Ended(self.stop.end(self.report));
        }
        if is_out_of_time {
            let end = End::Limit { limit: LimitKey::Wall };
            self.report.exit_status = ending::exit_status(&end);
            return Halt::Ended(ending::of(&end));
        }
        let hint = hint.map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        Halt::Ended(RunEnd::Failed { step, cause: Some(format!("{cause}{hint}")) })
    }

    fn views(&mut self, work: &Path, identity: Identity, progress: &mut dyn Progress) -> Result<Views, Halt> {
        let views = views::prepare(self.request, self.runner.home.root(), identity, work, self.inside.is_laid_out(), progress, &|| {
            self.stop.is_asked()
        });
        let views = match views {
            Ok(views) => views,
            Err(NoViews::Refused(refusal)) => return Err(Halt::Ended(record::refused(self.journal, &refusal)?)),
            Err(NoViews::Interrupted) => return Err(Halt::Ended(self.stop.end(self.report))),
        };
        self.report.hidden = views.hidden.clone();
        record::inputs(self.journal, &views.records)?;
        Ok(views)
    }

    /// The ways out that were granted.
    fn doors(&mut self, progress: &mut dyn Progress) -> Result<Option<DoorsAhead>, Halt> {
        match DoorsAhead::of(&self.grant.capabilities, &self.runner.surroundings.credentials(&self.runner.home), self.request) {
            Ok(ahead) => {
                for lock in ahead.iter().flat_map(DoorsAhead::locks) {
                    self.report.locks.push(record::lock(self.journal, lock)?);
                }
                self.report.warnings =
                    ahead.as_ref().map(|ahead| ahead.warnings(&self.runner.surroundings.environment)).unwrap_or_default();
                self.report.warnings.iter().for_each(|warning| progress.warn(warning));
                Ok(ahead)
            }
            Err(NoDoors::Refused(refusal)) => Err(Halt::Ended(record::refused(self.journal, &refusal)?)),
            Err(NoDoors::Failed(step, error)) => Err(failed_at(step)(error)),
        }
    }

    /// What is seen as `/`. It was here when the run was decided, and may have gone since.
    fn image(&mut self) -> Result<Shown, Halt> {
        match images::find(&self.runner.home, &self.grant.capabilities) {
            Ok(shown) => Ok(shown),
            Err(NoImage::Refused(refusal)) => Err(Halt::Ended(record::refused(self.journal, &refusal)?)),
            Err(NoImage::Failed(error)) => Err(failed_at("prepare the image")(error)),
        }
    }

    /// A sandbox that was made ahead by the same plan, for a session.
    fn parked(&self, plan: &Plan, views: &Views, has_doors: bool, shown: &Shown) -> Option<Parked> {
        let Inside::Session(_) = self.inside else { return None };
        let is_plain = views.inputs.is_none() && views.project.is_none() && !has_doors && plan.disk().is_none() && shown.name.is_none();
        let pool = self.runner.pool.as_ref().filter(|_| is_plain)?;
        pool.take(plan, || Pattern {
            capabilities: self.grant.capabilities.clone(),
            user: self.request.profile.profile.user.clone(),
            image: shown.image.clone(),
        })
    }

    /// A session in a sandbox that was made ahead.
    fn in_parked(&mut self, parked: Parked, shown: &Shown, state: &RunState) -> Result<(RunEnd, Remains), Halt> {
        let plan = parked.plan.clone();
        record::creating(self.journal, &self.runner.host, self.grant, &plan, shown)?;
        let sandbox = parked.hand_over(self.journal)?;
        let mut sandbox = sandbox.ok_or_else(|| failed_at("take a sandbox")(io::Error::other("it is gone")))?;
        self.journal.accept()?;
        let wall = Duration::from_millis(plan.wall_ms);
        sandbox.begin_anew(wall).map_err(failed_at("begin"))?;
        self.in_standing(sandbox, &plan, None, state, OutputTo::Report)
    }

    fn plan(&mut self, views: &Views, shown: &Shown, doors: &Doors, identity: Identity) -> Plan {
        let mut plan = compile(&SandboxSpec {
            capabilities: &self.grant.capabilities,
            cgroups: &self.runner.host.cgroups,
            identity,
            user: &self.request.profile.profile.user,
            image: &shown.image,
            inputs: views.inputs.clone(),
            input_folders: views.input_folders.clone(),
            project: views.project.clone(),
            has_writable_union: self.runner.host.has_writable_union(),
            disk: self.runner.disk_place(self.grant, self.journal.work()),
            doors,
        });
        self.inside.alter(&mut plan);
        plan
    }

    /// Builds the sandbox, and sees the command and with it the sandbox to the end.
    fn command(
        &mut self,
        empty: EmptySandbox,
        plan: &Plan,
        ahead: Option<DoorsAhead>,
        state: &RunState,
        attachments: &Attachments<'_>,
    ) -> Result<(RunEnd, Remains), Halt> {
        let (output, cancel) = (attachments.output, attachments.cancel);
        let limits = &self.grant.capabilities.limits;
        let creation = Creation { plan, limits, memory_grade: self.runner.host.memory_grade(), cancel };
        let rising = empty.build(creation, &mut |pid, cgroups: &[PathBuf]| self.journal.trace(&Traces::of(pid, cgroups)));
        let rising = rising.map_err(|error| self.no_sandbox(error))?;
        // While init builds, the run becomes durable: nothing of the program starts before.
        self.journal.accept()?;
        let sandbox = rising.stand().map_err(|error| self.no_sandbox(error))?;
        self.in_standing(sandbox, plan, ahead, state, output)
    }

    /// What is done in a sandbox that stands, and how it is ended.
    fn in_standing<'s>(
        &mut self,
        mut sandbox: Sandbox<'s>,
        plan: &Plan,
        ahead: Option<DoorsAhead>,
        state: &RunState,
        output: OutputTo<'s>,
    ) -> Result<(RunEnd, Remains), Halt> {
        self.journal.append(Event::SandboxCreated {})?;
        self.restore(state, &sandbox)?;
        let environment = self.environment(ahead.as_ref());
        let recording = Arc::new(Recording::new(self.journal.writer()));
        let helpers =
            Helpers { recording: &recording, environment: &self.runner.surroundings.environment, cache: self.runner.home.packages() };
        let open = ahead.map(|ahead| ahead.open(sandbox.take_doors(), &helpers)).transpose().map_err(failed_at("open the doors"))?;
        let end = match self.inside {
            Inside::Session(keeper) => self.session(*keeper, &mut sandbox, environment, state)?,
            _ => self.one_command(&mut sandbox, &plan.workspace, environment, output)?,
        };
        self.close(open, &recording)?;
        let remains = sandbox.finish().map_err(failed_at("end the sandbox"))?;
        self.report.take_usage(&remains);
        record::sandbox_ended(self.journal, &remains, &self.report.limits_reached)?;
        Ok((end, remains))
    }

    /// The command with which the sandbox ends.
    fn one_command<'s>(
        &mut self,
        sandbox: &mut Sandbox<'s>,
        folder: &str,
        environment: Vec<(String, OsText)>,
        output: OutputTo<'s>,
    ) -> Result<RunEnd, Halt> {
        let command = Command::new(self.request.command.clone(), environment);
        record::starting(self.journal, self.request, &command, folder)?;
        let stdin = self.request.open_stdin().map_err(failed_at("take standard input"))?;
        let streams = streams(stdin.map_or(Stdin::Empty, Stdin::From), output);
        let id = self.inside.start(sandbox, &command, streams).map_err(failed_at("start the command"))?;
        let outcome = sandbox.wait(id).map_err(failed_at("wait for the command"))?;
        record::ended(self.journal, &outcome)?;
        self.report.take_output(&outcome.stdout, &outcome.stderr, matches!(output, OutputTo::Report));
        self.report.exit_status = ending::exit_status(&outcome.end);
        Ok(ending::of(&outcome.end))
    }

    /// Commands come and go until the session is over.
    fn session(
        &mut self,
        keeper: &dyn Keeper,
        sandbox: &mut Sandbox<'_>,
        environment: Vec<(String, OsText)>,
        state: &RunState,
    ) -> Result<RunEnd, Halt> {
        let secrets = self.request.known_secrets.clone();
        let kept = Kept {
            run: self.journal.run().clone(),
            sandbox,
            journal: self.journal.writer(),
            environment,
            secrets,
            allowed: self.grant.capabilities.clone(),
            user: self.request.profile.profile.user.clone(),
            said: state.about(self.request, self.journal.run(), StateKind::Snapshot, Words::default()),
        };
        let end = keeper.keep(kept).map_err(failed_at("keep the session"))?;
        self.report.exit_status = ending::status_of(&end);
        Ok(end)
    }

    /// What was asked for, and placeholders for credentials whose variable nobody has set.
    fn environment(&self, ahead: Option<&DoorsAhead>) -> Vec<(String, OsText)> {
        let asked = self.request.environment.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone()));
        let mut environment: Vec<(String, OsText)> = asked.collect();
        for (name, placeholder) in ahead.into_iter().flat_map(DoorsAhead::placeholders) {
            if !environment.iter().any(|(taken, _)| *taken == name) {
                environment.push((name, OsText::from(placeholder.as_str())));
            }
        }
        environment
    }

    /// Closes the ways out: everything that was decided is on record by then.
    fn close(&mut self, open: Option<OpenDoors>, recording: &Recording) -> Result<(), Halt> {
        let Some(open) = open else { return Ok(()) };
        let totals = open.close();
        if totals.untold_refusals > 0 {
            self.journal.append(Event::NetworkRefusalsCounted { more: totals.untold_refusals })?;
        }
        recording.tell_report(self.report);
        let reached = [(totals.is_out_of_bytes, LimitKey::NetworkBytes), (totals.is_out_of_requests, LimitKey::NetworkRequests)];
        self.report.limits_reached.extend(reached.iter().filter(|(is_reached, _)| *is_reached).map(|(_, key)| key.name().to_owned()));
        match totals.is_unrecorded {
            true => Err(failed_at("record a decision about the network")(io::Error::other("the record could not be written"))),
            false => Ok(()),
        }
    }

    /// Collects what was named. Every process is dead by now, and the record is durable before anything leaves.
    fn export(&mut self, leaving: &Leaving<'_>) -> Result<(), Halt> {
        if self.request.exports.is_empty() {
            return Ok(());
        }
        self.journal.append(Event::Exporting { globs: self.request.exports.iter().map(Glob::to_string).collect() })?;
        self.journal.flush()?;
        let limit = |key| self.grant.capabilities.limits.get(key).unwrap_or(0);
        let limits = ExportLimits { artifacts: limit(LimitKey::Artifacts), bytes: limit(LimitKey::ArtifactBytes) };
        let mut sink = Sink { artifacts: &self.runner.artifacts, stop: &self.stop };
        let export = leaving.collect(&self.request.exports, limits, &mut sink);
        record::exported(self.journal, &export)?;
        self.report.take_artifacts(&export.artifacts);
        self.report.take_refusals(&export.refusals);
        Ok(())
    }
}

fn streams(stdin: Stdin, output: OutputTo<'_>) -> Streams<'_> {
    match output {
        OutputTo::Report => Streams { stdin, stdout: Capture::keeping(), stderr: Capture::keeping() },
        OutputTo::Streams { stdout, stderr } => Streams { stdin, stdout: Capture::passing_on(stdout), stderr: Capture::passing_on(stderr) },
    }
}
