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
use crate::control::{INIT_NAME, borrow_all, in_words, receive, send, socket_pair, to_memory_file};
use crate::identity::maps;
use crate::init_program::init_program;
use crate::plan::{GroupLimits, Identity, Plan};
use crate::step::{AtStep, StepError};
use crate::sys::landlock;

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
    /// Whether the wall limit of the run was met meanwhile.
    pub is_out_of_time: bool,
    /// What could not be taken away again: the run's mark must stay, so that a sweep finds it.
    pub left: Option<String>,
}

impl SetupError {
    fn new(step: &str, cause: String) -> Self {
        Self { step: step.to_owned(), cause, hint: None, is_out_of_time: false, left: None }
    }

    /// The same, with what was not taken away.
    fn leaving(self, removed: Result<(), SetupError>) -> Self {
        let left = removed.err().map(|error| error.to_string());
        Self { left: self.left.or(left), ..self }
    }
}

impl From<StepError> for SetupError {
    fn from(error: StepError) -> Self {
        let hint = hint_for(&error);
        Self { step: error.step, cause: std::io::Error::from(error.errno).to_string(), hint, is_out_of_time: false, left: None }
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
pub(crate) type Record<'a> = dyn FnMut(Pid, &[PathBuf]) -> std::io::Result<()> + 'a;

/// A sandbox whose init waits for commands.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) control: OwnedFd,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) group: Option<Group>,
    /// The workspace, the scratch file system, the root, and the changes where the plan has them.
    pub(crate) handles: Vec<OwnedFd>,
    /// The doors, in the order of the plan.
    pub(crate) doors: Vec<OwnedFd>,
    is_over: bool,
}

/// An init that is being born: in its cgroup and in new namespaces, with nothing built. Its maker makes it, and ends.
#[derive(Debug)]
pub(crate) struct Launching {
    /// The socket; let go of when everything is to end.
    control: Option<OwnedFd>,
    maker: Child,
    group: Option<Group>,
}

/// Starts the embedded program, which makes init and goes on by itself. The call costs the same however much memory this process has, and may come
/// from any thread.
pub(crate) fn launch(run: &str, cgroups: &Cgroups, limits: &GroupLimits, identity: Identity) -> Result<Launching, SetupError> {
    let group = cgroups.create(run, limits).at(|| "make the run's cgroup".into())?;
    match start_maker() {
        Ok((control, maker)) => {
            let launching = Launching { control: Some(control), maker, group };
            match launching.order_to_begin(identity) {
                Ok(()) => Ok(launching),
                Err(error) => Err(launching.undo(error.into())),
            }
        }
        Err(error) => Err(SetupError::from(error).leaving(group.map_or(Ok(()), |group| remove(&group)))),
    }
}

fn start_maker() -> Result<(OwnedFd, Child), StepError> {
    let (control, inner) = socket_pair().at(|| "make a socket pair".into())?;
    let program = init_program().at(|| "make the init program".into())?;
    let maker = execute(program, inner).at(|| "execute init (is /proc mounted?)".into())?;
    Ok((control, maker))
}

/// In a process group of its own: what is said to the caller's group, such as by Ctrl-C, is for the supervisor to act upon.
#[expect(clippy::disallowed_methods, reason = "the one program that the engine starts: its own")]
fn execute(program: BorrowedFd<'_>, control: OwnedFd) -> Result<Child, std::io::Error> {
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg0(INIT_NAME).env_clear().process_group(0);
    command.stdin(control).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn remove(group: &Group) -> Result<(), SetupError> {
    Ok(group.remove().at(|| "remove the run's cgroup".into())?)
}

impl Launching {
    fn socket(&self) -> Result<BorrowedFd<'_>, StepError> {
        self.control.as_ref().map(AsFd::as_fd).ok_or(Errno::PIPE).at(|| "speak to init".into())
    }

    fn order_to_begin(&self, identity: Identity) -> Result<(), StepError> {
        let entry = self.group.as_ref().map(Group::entry).transpose().at(|| "open the run's cgroup".into())?.unwrap_or_default();
        let groups: Vec<BorrowedFd<'_>> = entry.files.iter().map(AsFd::as_fd).collect();
        let order = Order::Begin { is_born_in_group: entry.is_born_in, maps: maps(identity) };
        send(self.socket()?, &order, &groups).at(|| "begin".into())
    }

    /// Gives init the plan, by which it builds while the caller goes on. `record` is told the pid and the cgroup's folders meanwhile.
    pub(crate) fn begin(mut self, plan: &Plan, cancel: Option<BorrowedFd<'_>>, record: &mut Record<'_>) -> Result<Launched, SetupError> {
        let mut launched = match self.hand_over_and_hear(plan, cancel) {
            Ok(launched) => launched,
            Err(error) => return Err(self.undo(error)),
        };
        let folders = launched.group.as_ref().map_or(&[][..], |group| &group.folders);
        let recorded = record(launched.pid, folders).at(|| "record the sandbox".into());
        launched.or_end(recorded.map_err(SetupError::from))?;
        Ok(launched)
    }

    /// The first report is the maker's. It has then ended, and no longer counts as a process of the group.
    fn hand_over_and_hear(&mut self, plan: &Plan, cancel: Option<BorrowedFd<'_>>) -> Result<Launched, SetupError> {
        hand_over(self.socket()?, plan)?;
        Patience::of(plan, cancel).wait(self.socket()?)?;
        let heard = receive(self.socket()?, RecvFlags::empty()).and_then(|heard| heard.ok_or(Errno::PIPE));
        match heard.at(|| "hear from init".into())? {
            (Report::Born { pid }, mut descriptors) => {
                wait_for_maker(&mut self.maker);
                let pid = Pid::from_raw(pid).ok_or(Errno::SRCH).at(|| "hear from init".into())?;
                let pidfd = descriptors.pop().ok_or(Errno::BADF).at(|| "hear from init".into())?;
                let control = self.control.take().ok_or(Errno::PIPE).at(|| "speak to init".into())?;
                Ok(Launched { control, pid, pidfd, group: self.group.take(), handles: Vec::new(), doors: Vec::new(), is_over: false })
            }
            (Report::Failed(failed), _) => Err(in_words(failed, plan).into()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Takes away again what was made. Where there is an init it ends once the socket is gone.
    fn undo(mut self, error: SetupError) -> SetupError {
        error.leaving(self.end())
    }

    fn end(&mut self) -> Result<(), SetupError> {
        self.control = None;
        self.maker.kill().unwrap_or_default(); // it has ended already, or does not stop
        wait_for_maker(&mut self.maker);
        self.group.take().map_or(Ok(()), |group| remove(&group))
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        // On the way out of another error, which is the one to tell.
        self.end().unwrap_or_default();
    }
}

fn wait_for_maker(maker: &mut Child) {
    // A caller that ignores SIGCHLD leaves no child to wait for.
    maker.wait().map(drop).unwrap_or_default();
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

    /// Waits until init stands confined.
    pub(crate) fn stand(&mut self, plan: &Plan, cancel: Option<BorrowedFd<'_>>) -> Result<(), SetupError> {
        match standing(self.control.as_fd(), plan, cancel) {
            Ok(mut handles) => {
                self.doors = handles.split_off(handles.len().saturating_sub(plan.doors().count()));
                self.handles = handles;
                Ok(())
            }
            Err(error) => self.or_end(Err(error)),
        }
    }

    /// Takes everything away again if a step has failed.
    fn or_end(&mut self, done: Result<(), SetupError>) -> Result<(), SetupError> {
        match done {
            Ok(()) => Ok(()),
            Err(error) => Err(error.leaving(self.end().map(drop))),
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
    SetupError::new("hear from init", format!("it said {report:?}"))
}

/// Sends the plan.
fn hand_over(control: BorrowedFd<'_>, plan: &Plan) -> Result<(), StepError> {
    let sources = crate::source::open_all(plan)?;
    let file = to_memory_file(&blueprint(plan, landlock::version())).at(|| "write the plan".into())?;
    let mut descriptors = vec![file.as_fd()];
    descriptors.extend(borrow_all(&sources));
    match send(control, &Order::Build, &descriptors) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {} // init has ended; what it said before tells why
        Err(errno) => Err(errno).at(|| "send the plan".into())?,
    }
    Ok(())
}

/// How long the building of a sandbox may take: no longer than the run, and until the caller asks to stop.
struct Patience<'a> {
    ends_at: Instant,
    cancel: Option<BorrowedFd<'a>>,
}

impl<'a> Patience<'a> {
    fn of(plan: &Plan, cancel: Option<BorrowedFd<'a>>) -> Self {
        Self { ends_at: Instant::now() + Duration::from_millis(plan.wall_ms), cancel }
    }

    fn wait(&self, control: BorrowedFd<'_>) -> Result<(), SetupError> {
        let gave_up = |cause: &str| SetupError::new("build the sandbox", cause.into());
        let left = self.ends_at.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut waiting = vec![PollFd::from_borrowed_fd(control, PollFlags::IN)];
        waiting.extend(self.cancel.iter().map(|cancel| PollFd::from_borrowed_fd(*cancel, PollFlags::IN)));
        match rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&left))).at(|| "hear from init".into())? {
            0 => Err(SetupError { is_out_of_time: true, ..gave_up("it took longer than the wall limit of the run") }),
            _ if waiting.get(1).is_some_and(|cancel| !cancel.revents().is_empty()) => Err(gave_up("interrupted")),
            _ => Ok(()),
        }
    }
}

fn standing(control: BorrowedFd<'_>, plan: &Plan, cancel: Option<BorrowedFd<'_>>) -> Result<Vec<OwnedFd>, SetupError> {
    Patience::of(plan, cancel).wait(control)?;
    match receive(control, RecvFlags::empty()).at(|| "hear from init".into())? {
        Some((Report::Standing, descriptors)) => Ok(descriptors),
        Some((Report::Failed(failed), _)) => Err(in_words(failed, plan).into()),
        Some((other, _)) => Err(unexpected(&other)),
        None => Err(SetupError::new("hear from init", "it ended".into())),
    }
}
