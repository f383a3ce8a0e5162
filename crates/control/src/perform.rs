//! What is done with a grant: views, plan, sandbox, command, export. The sandbox is torn down on every path.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ringfence_evidence::{Event, RunEnd};
use ringfence_isolation::{
    ArtifactSink, Capture, Command, Creation, End, Export, ExportLimits, ExportRefusal, Exported, HostImage, PatchRequest, Remains,
    Sandbox, SandboxSpec, SetupError, Stored, Streams, Traces, collect, compile, lease_identity, own_stdin, stop_signal, write_patch,
};
use ringfence_policy::{Glob, Grant, LimitKey};
use ringfence_store::{Artifacts, Journal};

use crate::error::RunError;
use crate::report::{RefusalReport, RunReport, grades};
use crate::request::{Attachments, OutputTo, RunRequest};
use crate::run::{Runner, image_digest, refuse};
use crate::views::{self, NoViews, Views};
use crate::{ending, record};

/// The name under which the changes to a project can be exported.
const PATCH: &str = "changes.patch";

/// Refusals of an export that are named one by one.
const NAMED_REFUSALS: usize = 1000;

/// Performs a grant. An error means that the record could not be kept; what fails inside is an end of the run.
pub(crate) fn perform<'a>(
    runner: &Runner,
    grant: &Grant,
    request: &RunRequest,
    attachments: Attachments<'a>,
    journal: &mut Journal,
    report: &mut RunReport,
) -> Result<RunEnd, RunError> {
    record::granted(journal, grant)?;
    report.tier = grant.capabilities.tier.to_string();
    report.grades = grades(&runner.host, grant);
    let lease = match lease_identity() {
        Ok(lease) => lease,
        Err(error) => return Ok(failed("lease user ids", &error)),
    };
    let stop = Stop::of(attachments.cancel);
    let (work, since) = (journal.work()?.to_owned(), SystemTime::now());
    let views = match views::prepare(request, runner.home.root(), lease.identity, &work, attachments.progress, &|| stop.is_asked()) {
        Ok(views) => views,
        Err(NoViews::Refused(refusal)) => return Ok(refuse(journal, &refusal)?),
        Err(NoViews::Interrupted) => return Ok(stop.end(report)),
    };
    report.hidden = views.hidden.clone();
    record::inputs(journal, &views.records)?;
    let image = match HostImage::prepare(&runner.home.images()) {
        Ok(image) => image,
        Err(error) => return Ok(failed("prepare the image", &error)),
    };
    let plan = compile(&SandboxSpec {
        capabilities: &grant.capabilities,
        cgroups: &runner.host.cgroups,
        identity: lease.identity,
        image: &image,
        inputs: views.inputs.clone(),
        input_folders: views.input_folders.clone(),
        project: views.project.clone(),
        has_writable_union: runner.host.has_writable_union(),
    });
    record::creating(journal, &runner.host, grant, &plan, image_digest(&image))?;
    let run = report.run.clone();
    let creation = Creation {
        plan: &plan,
        run: &run,
        limits: &grant.capabilities.limits,
        memory_grade: runner.host.memory_grade(),
        cgroups: &runner.host.cgroups,
        lease,
        cancel: attachments.cancel,
    };
    let sandbox: Sandbox<'a> = match Sandbox::create(creation, &mut |pid, cgroups: &[PathBuf]| journal.trace(&Traces::of(pid, cgroups))) {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok(not_set_up(&error)),
    };
    journal.append(Event::SandboxCreated {})?;
    let (end, remains) = match command(sandbox, request, attachments.output, &plan.workspace, journal, report)? {
        Ok(ended) => ended,
        Err(end) => return Ok(end),
    };
    let leaving = Leaving { views: &views, remains: &remains, since, work: &work, stop: &stop };
    export(runner, grant, request, &leaving, journal, report)?;
    Ok(end)
}

/// Starts the command and sees it to its end, and with it the sandbox.
fn command<'a>(
    mut sandbox: Sandbox<'a>,
    request: &RunRequest,
    output: OutputTo<'a>,
    folder: &str,
    journal: &mut Journal,
    report: &mut RunReport,
) -> Result<Result<(RunEnd, Remains), RunEnd>, RunError> {
    let environment = request.environment.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone())).collect();
    let command = Command { argv: request.command.clone(), environment };
    record::starting(journal, request, &command, folder)?;
    let is_kept = matches!(output, OutputTo::Report);
    let (stdout, stderr) = match output {
        OutputTo::Report => (Capture::keeping(), Capture::keeping()),
        OutputTo::Streams { stdout, stderr } => (Capture::passing_on(stdout), Capture::passing_on(stderr)),
    };
    let stdin = match request.has_stdin.then(own_stdin).transpose() {
        Ok(stdin) => stdin,
        Err(error) => return Ok(Err(failed("take standard input", &error))),
    };
    let id = match sandbox.start(&command, Streams { stdin, stdout, stderr }) {
        Ok(id) => id,
        Err(errno) => return Ok(Err(failed("start the command", &errno.into()))),
    };
    let outcome = match sandbox.wait(id, true) {
        Ok(outcome) => outcome,
        Err(errno) => return Ok(Err(failed("wait for the command", &errno.into()))),
    };
    record::ended(journal, &outcome)?;
    report.take_output(&outcome.stdout, &outcome.stderr, is_kept);
    report.exit_status = ending::exit_status(&outcome.end);
    let remains = match sandbox.finish() {
        Ok(remains) => remains,
        Err(errno) => return Ok(Err(failed("end the sandbox", &errno.into()))),
    };
    record::sandbox_ended(journal, &remains)?;
    report.usage = record::usage(&remains.usage);
    report.limits_reached = remains.limits_reached.iter().map(|key| key.name().to_owned()).collect();
    Ok(Ok((ending::of(&outcome.end), remains)))
}

/// Collects what was named. Every process is dead by now, and the record is durable before anything leaves.
fn export(
    runner: &Runner,
    grant: &Grant,
    request: &RunRequest,
    leaving: &Leaving<'_>,
    journal: &mut Journal,
    report: &mut RunReport,
) -> Result<(), RunError> {
    if request.exports.is_empty() {
        return Ok(());
    }
    journal.append(Event::Exporting { globs: request.exports.iter().map(Glob::to_string).collect() })?;
    journal.flush()?;
    let limit = |key| grant.capabilities.limits.get(key).unwrap_or(0);
    let limits = ExportLimits { artifacts: limit(LimitKey::Artifacts), bytes: limit(LimitKey::ArtifactBytes) };
    let mut sink = Sink { artifacts: &runner.artifacts, stop: leaving.stop };
    let is_patch = |glob: &&Glob| request.project.is_some() && glob.as_str() == PATCH;
    let named: BTreeSet<&Glob> = request.exports.iter().filter(|glob| !is_patch(glob)).collect();
    let globs: Vec<Glob> = named.into_iter().cloned().collect();
    let mut export = collect(leaving.remains.workspace.as_fd(), &globs, limits, &mut sink);
    if request.exports.iter().any(|glob| is_patch(&glob)) {
        reserve_patch_name(&mut export);
        patch(leaving, limits, &mut sink, &mut export);
    }
    cap(&mut export.refusals);
    report.take_artifacts(&record::exported(journal, &export)?);
    report.refusals = export.refusals.iter().map(|r| RefusalReport { path: r.path.escaped(), reason: r.reason.clone() }).collect();
    if report.exit_status == 0 && !report.refusals.is_empty() {
        report.exit_status = ending::INCOMPLETE;
    }
    Ok(())
}

/// A program can make as many things that are refused as it likes; a record names the first of them.
fn cap(refusals: &mut Vec<ExportRefusal>) {
    if refusals.len() > NAMED_REFUSALS {
        let more = refusals.len() - NAMED_REFUSALS;
        refusals.truncate(NAMED_REFUSALS);
        refusals.push(ExportRefusal { path: "**".into(), reason: format!("{more} more were refused and are not named") });
    }
}

/// The program cannot pass off a file of its own as the patch.
fn reserve_patch_name(export: &mut Export) {
    let before = export.artifacts.len();
    export.artifacts.retain(|artifact| artifact.path.as_bytes() != PATCH.as_bytes());
    if export.artifacts.len() < before {
        let reason = "the program wrote a file of this name; the artifact is the patch of its changes".into();
        export.refusals.push(ExportRefusal { path: PATCH.into(), reason });
    }
}

/// Makes `changes.patch` from what the run changed in its view of the project.
fn patch(leaving: &Leaving<'_>, limits: ExportLimits, sink: &mut Sink<'_>, export: &mut Export) {
    let (Some(project), remains) = (&leaving.views.project, leaving.remains) else { return };
    let request = PatchRequest {
        base: &project.path,
        workspace: remains.workspace.as_fd(),
        changes: remains.changes.as_ref().map(AsFd::as_fd),
        hidden: &project.veil.hidden,
        replaced: &project.veil.replaced,
        most_bytes: limits.bytes,
        // A private copy does not change under the run.
        since: (!project.path.starts_with(leaving.work)).then_some(leaving.since),
    };
    let written =
        write_patch(&request, &mut |_| leaving.stop.go_on()).and_then(|(bytes, summary)| match bytes.len() as u64 <= limits.bytes {
            true => sink.store(&mut bytes.as_slice()).map(|stored| (stored, summary)),
            false => Err(io::Error::other(format!("is {} bytes long, more than the limit of {}", bytes.len(), limits.bytes))),
        });
    match written {
        Ok((stored, summary)) => {
            export.artifacts.push(Exported { path: PATCH.into(), is_executable: false, stored });
            export.refusals.extend(
                summary.refused.into_iter().map(|(path, reason)| ExportRefusal { path, reason: format!("left out of {PATCH}: {reason}") }),
            );
        }
        Err(error) => export.refusals.push(ExportRefusal { path: PATCH.into(), reason: error.to_string() }),
    }
}

/// What can leave a run that has ended.
struct Leaving<'a> {
    views: &'a Views,
    remains: &'a Remains,
    /// When the run began to look at the host's files.
    since: SystemTime,
    /// Where private copies are.
    work: &'a Path,
    stop: &'a Stop<'a>,
}

/// Whether the caller has asked to stop, and by which signal.
struct Stop<'a> {
    cancel: Option<BorrowedFd<'a>>,
    signal: Cell<Option<i32>>,
}

impl<'a> Stop<'a> {
    fn of(cancel: Option<BorrowedFd<'a>>) -> Self {
        Self { cancel, signal: Cell::new(None) }
    }

    fn is_asked(&self) -> bool {
        let asked = self.signal.get().or_else(|| self.cancel.and_then(stop_signal));
        self.signal.set(asked);
        asked.is_some()
    }

    fn go_on(&self) -> io::Result<()> {
        if self.is_asked() { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    fn end(&self, report: &mut RunReport) -> RunEnd {
        let end = End::Interrupted { signal: self.signal.get().unwrap_or(0) };
        report.exit_status = ending::exit_status(&end);
        ending::of(&end)
    }
}

/// Artifacts go into the store.
struct Sink<'a> {
    artifacts: &'a Artifacts,
    stop: &'a Stop<'a>,
}

impl ArtifactSink for Sink<'_> {
    fn store(&mut self, content: &mut dyn Read) -> io::Result<Stored> {
        self.stop.go_on()?;
        let (digest, bytes) = self.artifacts.put(content)?;
        Ok(Stored { bytes, sha256: digest.hex() })
    }
}

fn failed(step: &str, error: &io::Error) -> RunEnd {
    RunEnd::Failed { step: step.to_owned(), cause: Some(error.to_string()) }
}

fn not_set_up(error: &SetupError) -> RunEnd {
    let hint = error.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
    RunEnd::Failed { step: error.step.clone(), cause: Some(format!("{}{hint}", error.cause)) }
}
