//! From a plan to a standing sandbox: new namespaces, id maps, cgroup, and the embedded init inside.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_wire::{Order, Report};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::blueprint::blueprint;
use crate::cgroup::{Cgroups, Group, GroupUsage};
use crate::compile::Veil;
use crate::control::{INIT_NAME, borrow_all, in_words, receive, send, socket_pair, to_memory_file};
use crate::identity::write_identity;
use crate::init_program::init_program;
use crate::plan::{GroupLimits, Identity, Plan, Step};
use crate::step::{AtStep, StepError};
use crate::sys::landlock;
use crate::workspace::copy_tree;

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
#[error("could not {step}: {cause}")]
pub struct SetupError {
    /// What was tried.
    pub step: String,
    /// Why it failed.
    pub cause: String,
    /// What would help, where that is known.
    pub hint: Option<String>,
}

impl From<StepError> for SetupError {
    fn from(error: StepError) -> Self {
        let hint = hint_for(&error);
        Self { step: error.step, cause: std::io::Error::from(error.errno).to_string(), hint }
    }
}

fn hint_for(error: &StepError) -> Option<String> {
    let text = match (error.step.as_str(), error.errno) {
        ("make namespaces", Errno::PERM | Errno::NOSPC | Errno::ACCESS) => {
            "user namespaces are off here: set `sysctl kernel.unprivileged_userns_clone=1` and `user.max_user_namespaces=15000`, or allow the program in AppArmor"
        }
        ("make the init program", Errno::ACCESS | Errno::PERM) => {
            "init is executed from a memory file: set `sysctl vm.memfd_noexec=1` or lower"
        }
        ("make mounts private", _) | ("mount the stage", Errno::PERM | Errno::ACCESS) => {
            "this host lets a user namespace be made but not used (AppArmor's unprivileged_userns restriction?): allow the program in AppArmor"
        }
        (step, Errno::PERM) if step.starts_with("process information") => {
            "an outer container hides parts of /proc; run it with an unmasked /proc (`--security-opt systempaths=unconfined`)"
        }
        (step, Errno::INVAL) if step.starts_with("open ") => {
            "something is mounted below this folder (as in WSL or a container): unmount it, or run as root"
        }
        (step, _) if step.starts_with("attach the run's disk") => {
            "the host has no loop device to give (in a container: give it /dev/loop-control and /dev/loop*); `--storage memory` does without"
        }
        (step, _) if step.starts_with("read-only union") || step.starts_with("writable view") => {
            "overlayfs must be usable in a user namespace (Linux 5.13 or newer, module `overlay` loaded)"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Is told the process id of init and the folders of its cgroup.
pub(crate) type Born<'a> = dyn FnMut(Pid, &[PathBuf]) -> std::io::Result<()> + 'a;

/// A sandbox whose init waits for commands.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) control: OwnedFd,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) group: Option<Group>,
    /// The workspace, the scratch file system, and the changes where the plan has them.
    pub(crate) handles: Vec<OwnedFd>,
    is_over: bool,
}

/// An init that is being born: in its cgroup and in new namespaces, with nothing built.
#[derive(Debug)]
pub(crate) struct Launching {
    control: OwnedFd,
    maker: Child,
    group: Option<Group>,
    is_heard: bool,
}

/// Starts the embedded program, which makes init and goes on by itself. The call costs the same however much memory this process has, and may come
/// from any thread.
pub(crate) fn launch(run: &str, cgroups: &Cgroups, limits: &GroupLimits) -> Result<Launching, SetupError> {
    let group = cgroups.create(run, limits).at(|| "make the run's cgroup".into())?;
    let begun = start_maker(group.as_ref());
    match (begun, group) {
        (Ok((control, maker)), group) => Ok(Launching { control, maker, group, is_heard: false }),
        (Err(error), Some(group)) => {
            group.remove().at(|| "remove the run's cgroup".into())?;
            Err(error.into())
        }
        (Err(error), None) => Err(error.into()),
    }
}

fn start_maker(group: Option<&Group>) -> Result<(OwnedFd, Child), StepError> {
    let (control, inner) = socket_pair().at(|| "make a socket pair".into())?;
    let entry = group.map(Group::entry).transpose().at(|| "open the run's cgroup".into())?.unwrap_or_default();
    let maker = execute(inner).at(|| "execute init (is /proc mounted?)".into())?;
    let groups: Vec<BorrowedFd<'_>> = entry.files.iter().map(AsFd::as_fd).collect();
    send(control.as_fd(), &Order::Begin { is_born_in_group: entry.is_born_in }, &groups).at(|| "begin".into())?;
    Ok((control, maker))
}

#[expect(clippy::disallowed_methods, reason = "the one program that the engine starts: its own")]
fn execute(control: OwnedFd) -> Result<Child, std::io::Error> {
    let program = format!("/proc/self/fd/{}", init_program()?.as_raw_fd());
    Command::new(program).arg0(INIT_NAME).env_clear().stdin(control).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Launching {
    /// Waits until init is there.
    pub(crate) fn born(mut self) -> Result<Launched, SetupError> {
        let (report, mut descriptors) = self.hear()?;
        match (report, descriptors.pop()) {
            (Report::Born { pid }, Some(pidfd)) => {
                let pid = Pid::from_raw(pid).ok_or(Errno::SRCH).at(|| "hear from init".into())?;
                let control = self.control.try_clone().at(|| "keep the socket".into())?;
                Ok(Launched { control, pid, pidfd, group: self.group.take(), handles: Vec::new(), is_over: false })
            }
            (Report::Failed(failed), _) => {
                Err(StepError { step: failed.act.into_owned(), errno: Errno::from_raw_os_error(failed.errno) }.into())
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The first report. The process that sends it has then ended, and no longer counts as one of the group.
    fn hear(&mut self) -> Result<(Report, Vec<OwnedFd>), StepError> {
        self.is_heard = true;
        let heard = receive(self.control.as_fd(), RecvFlags::empty());
        // A caller that ignores SIGCHLD leaves no child to wait for.
        self.maker.wait().map(drop).unwrap_or_default();
        heard.and_then(|heard| heard.ok_or(Errno::PIPE)).at(|| "hear from init".into())
    }

    /// Takes away again what was made.
    fn undo(&mut self) {
        if !self.is_heard
            && let Ok((Report::Born { .. }, descriptors)) = self.hear()
        {
            descriptors.iter().for_each(|pidfd| pidfd_send_signal(pidfd, Signal::KILL).unwrap_or_default());
            descriptors.iter().for_each(wait_for);
        }
        if let Some(group) = self.group.take() {
            // On the way out of another error, which is the one to tell; a sweep finds a group that stays.
            group.remove().unwrap_or_default();
        }
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Waits until a process is gone.
fn wait_for(pidfd: &OwnedFd) {
    while let Err(Errno::INTR) = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {}
}

impl Launched {
    /// Kills init, and with it every process of the sandbox; waits until the kernel is done; removes the cgroup. Answers with what was used.
    pub(crate) fn end(&mut self) -> Result<Option<GroupUsage>, SetupError> {
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {} // it is dead already
            Err(errno) => return Err(errno).at(|| "end the sandbox".into())?,
        }
        wait_for(&self.pidfd);
        self.is_over = true;
        let Some(group) = self.group.take() else { return Ok(None) };
        let usage = group.usage();
        group.remove().at(|| "remove the run's cgroup".into())?;
        Ok(Some(usage))
    }
}

impl Launched {
    /// Gives init its ids and the plan; it builds while the caller goes on. `born` is told the pid and the cgroup's folders meanwhile.
    pub(crate) fn begin(&mut self, plan: &Plan, born: &mut Born<'_>) -> Result<(), SetupError> {
        let begun = self.give_ids(plan.identity).and_then(|()| hand_over(self, plan));
        let folders = self.group.as_ref().map_or(&[][..], |group| &group.folders);
        let recorded = begun.and_then(|()| born(self.pid, folders).at(|| "record the sandbox".into()));
        self.or_end(recorded.map_err(SetupError::from))
    }

    fn give_ids(&self, identity: Identity) -> Result<(), StepError> {
        let ids = matches!(identity, Identity::Range { .. }).then_some((0, 0));
        write_identity(self.pid, identity).at(|| "write the id maps".into())?;
        send(self.control.as_fd(), &Order::Mapped { ids }, &[]).at(|| "start init".into())
    }

    /// Waits until init stands confined.
    pub(crate) fn stand(&mut self, plan: &Plan, cancel: Option<BorrowedFd<'_>>) -> Result<(), SetupError> {
        let stood = build(self, plan, cancel);
        self.or_end(stood)
    }

    /// Takes everything away again if a step has failed.
    fn or_end(&mut self, done: Result<(), SetupError>) -> Result<(), SetupError> {
        match done {
            Ok(()) => Ok(()),
            Err(error) => self.end().and(Err(error)),
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if !self.is_over {
            // On the way out of another error, which is the one to tell.
            self.end().map(drop).unwrap_or_default();
        }
    }
}

fn unexpected(report: &Report) -> SetupError {
    SetupError { step: "hear from init".into(), cause: format!("it said {report:?}"), hint: None }
}

/// Sends the plan. With nothing to copy, the next order already waits for init.
fn hand_over(launched: &Launched, plan: &Plan) -> Result<(), StepError> {
    let sources = crate::source::open_all(plan)?;
    let file = to_memory_file(&blueprint(plan, landlock::version())).at(|| "write the plan".into())?;
    let mut descriptors = vec![file.as_fd()];
    descriptors.extend(borrow_all(&sources));
    match send(launched.control.as_fd(), &Order::Build, &descriptors) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {} // init has ended; what it said before tells why
        Err(errno) => Err(errno).at(|| "send the plan".into())?,
    }
    if copies(plan).next().is_none() { confine(launched) } else { Ok(()) }
}

fn confine(launched: &Launched) -> Result<(), StepError> {
    match send(launched.control.as_fd(), &Order::Confine, &[]) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()), // as above
        Err(errno) => Err(errno).at(|| "confine the sandbox".into()),
    }
}

fn copies(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| matches!(step, Step::Copy { .. }))
}

fn build(launched: &mut Launched, plan: &Plan, cancel: Option<BorrowedFd<'_>>) -> Result<(), SetupError> {
    let patience = Patience { ends_at: Instant::now() + Duration::from_millis(plan.wall_ms), cancel };
    launched.handles = expect_report(launched.control.as_fd(), &patience, plan, &Report::Built)?;
    if copies(plan).next().is_some() {
        copies(plan).try_for_each(|copy| fill(&launched.handles, copy, plan))?;
        confine(launched)?;
    }
    expect_report(launched.control.as_fd(), &patience, plan, &Report::Confined).map(drop)
}

/// Copies a project into the workspace: the view where no writable union can be had.
fn fill(handles: &[OwnedFd], copy: &Step, plan: &Plan) -> Result<(), SetupError> {
    let Step::Copy { source, hidden, replaced, .. } = copy else { return Ok(()) };
    let failed = |cause: String| SetupError { step: copy.to_string(), cause, hint: None };
    let (Some(source), Some(workspace)) = (plan.sources.get(*source), handles.first()) else { return Err(failed("no source".into())) };
    let left_out = hidden.iter().chain(replaced.iter().map(|(path, _)| path)).cloned().collect();
    let to = PathBuf::from(format!("/proc/self/fd/{}", workspace.as_raw_fd()));
    let veil = Veil { hidden: left_out, replaced: Vec::new() };
    copy_tree(&source.path, &to, &veil, plan.identity, &mut |_| Ok(())).map_err(|e| failed(e.to_string()))?;
    replaced
        .iter()
        .try_for_each(|(path, text)| crate::workspace::write_new(&to.join(path.as_os_str()), text.as_bytes(), plan.identity))
        .map_err(|e| failed(e.to_string()))
}

/// How long the building of a sandbox may take: no longer than the run, and until the caller asks to stop.
struct Patience<'a> {
    ends_at: Instant,
    cancel: Option<BorrowedFd<'a>>,
}

impl Patience<'_> {
    fn wait(&self, control: BorrowedFd<'_>) -> Result<(), SetupError> {
        let gave_up = |cause: &str| SetupError { step: "build the sandbox".into(), cause: cause.into(), hint: None };
        let left = self.ends_at.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut waiting = vec![PollFd::from_borrowed_fd(control, PollFlags::IN)];
        waiting.extend(self.cancel.iter().map(|cancel| PollFd::from_borrowed_fd(*cancel, PollFlags::IN)));
        match rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&left))).at(|| "hear from init".into())? {
            0 => Err(gave_up("it took longer than the wall limit of the run")),
            _ if waiting.get(1).is_some_and(|cancel| !cancel.revents().is_empty()) => Err(gave_up("interrupted")),
            _ => Ok(()),
        }
    }
}

fn expect_report(control: BorrowedFd<'_>, patience: &Patience<'_>, plan: &Plan, wanted: &Report) -> Result<Vec<OwnedFd>, SetupError> {
    patience.wait(control)?;
    match receive(control, RecvFlags::empty()).at(|| "hear from init".into())? {
        Some((report, descriptors)) if report == *wanted => Ok(descriptors),
        Some((Report::Failed(failed), _)) => Err(in_words(failed, plan).into()),
        Some((other, _)) => Err(unexpected(&other)),
        None => Err(SetupError { step: "hear from init".into(), cause: "it ended".into(), hint: None }),
    }
}
