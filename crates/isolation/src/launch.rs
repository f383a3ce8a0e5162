//! From a plan to a standing sandbox: new namespaces, id maps, cgroup, and our own program as init inside.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities};

use crate::cgroup::{Cgroups, Group};
use crate::control::{CONTROL_FD, INIT_NAME, Order, Report, borrow_all, receive, send, socket_pair, to_memory_file};
use crate::identity::write_identity;
use crate::plan::{Identity, Plan};
use crate::step::{AtStep, StepError};
use crate::sys::clone::{Forked, SANDBOX_NAMESPACES, exit_now, fork_into};
use crate::sys::exec::{StringArray, close_from, execveat};
use crate::sys::{ids, signals};

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
        ("make mounts private", _) | ("mount the stage", Errno::PERM | Errno::ACCESS) => {
            "this host lets a user namespace be made but not used (AppArmor's unprivileged_userns restriction?): allow the program in AppArmor"
        }
        (step, Errno::PERM) if step.starts_with("process information") => {
            "an outer container hides parts of /proc; run it with an unmasked /proc (`--security-opt systempaths=unconfined`)"
        }
        (step, Errno::INVAL) if step.starts_with("open ") => {
            "something is mounted below this folder (as in WSL or a container): unmount it, or run as root"
        }
        (step, _) if step.starts_with("read-only union") || step.starts_with("writable view") => {
            "overlayfs must be usable in a user namespace (Linux 5.13 or newer, module `overlay` loaded)"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// A sandbox whose init waits for commands.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) control: OwnedFd,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) group: Option<Group>,
    /// The workspace, the scratch file system, and the changes where the plan has them.
    pub(crate) handles: Vec<OwnedFd>,
}

/// Launches; on any failure whatever was made is taken away again. `born` is told the pid and the cgroup's folders as soon as they are known,
/// so that they can be recorded before anything runs.
pub(crate) fn launch(
    plan: &Plan,
    run: &str,
    cgroups: &Cgroups,
    cancel: Option<BorrowedFd<'_>>,
    born: &mut dyn FnMut(Pid, &[std::path::PathBuf]) -> std::io::Result<()>,
) -> Result<Launched, SetupError> {
    let group = cgroups.create(run, &plan.group_limits).at(|| "make the run's cgroup".into())?;
    match start_init(plan, group.as_ref()) {
        Ok((control, pid, pidfd)) => {
            let mut launched = Launched { control, pid, pidfd, group, handles: Vec::new() };
            let folders = launched.group.as_ref().map_or(&[][..], |g| &g.folders);
            let stood = born(pid, folders)
                .at(|| "record the sandbox".into())
                .map_err(SetupError::from)
                .and_then(|()| build(&mut launched, plan, cancel));
            match stood {
                Ok(()) => Ok(launched),
                Err(error) => {
                    launched.end();
                    Err(error)
                }
            }
        }
        Err(error) => {
            if let Some(group) = group {
                group.remove().at(|| "remove the run's cgroup".into())?;
            }
            Err(error.into())
        }
    }
}

impl Launched {
    /// Kills init, and with it every process of the sandbox; waits until the kernel is done; removes the cgroup.
    pub(crate) fn end(&mut self) -> Option<crate::cgroup::GroupUsage> {
        // ESRCH: it is dead already.
        pidfd_send_signal(&self.pidfd, Signal::KILL).unwrap_or_default();
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {}
        let group = self.group.take()?;
        let usage = group.usage();
        // Its processes are dead; a group that the kernel still holds on to after two seconds stays behind, empty.
        group.remove().unwrap_or_default();
        Some(usage)
    }
}

fn start_init(plan: &Plan, group: Option<&Group>) -> Result<(OwnedFd, Pid, OwnedFd), StepError> {
    let program = open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .at(|| "open the program itself (is /proc mounted?)".into())?;
    let (control, inner) = socket_pair().at(|| "make a socket pair".into())?;
    let (go, going) = pipe_with(PipeFlags::CLOEXEC).at(|| "make a pipe".into())?;
    let entry = group.map(Group::entry).transpose().at(|| "open the run's cgroup".into())?.flatten();
    match fork_into(SANDBOX_NAMESPACES, entry.as_ref().map(File::as_fd)).at(|| "make namespaces".into())? {
        Forked::Child => {
            drop(going);
            let error = become_init(plan.identity, &program, &inner, &go);
            let report = Report::Failed { step: error.step, errno: error.errno.raw_os_error() };
            send(inner.as_fd(), &report, &[]).unwrap_or_default();
            exit_now(1)
        }
        Forked::Parent { pid, pidfd } => {
            let mapped = write_identity(pid, plan.identity).at(|| "write the id maps".into());
            let told = mapped.and_then(|()| rustix::io::write(&going, b"!").at(|| "start init".into()));
            match told {
                Ok(_) => Ok((control, pid, pidfd)),
                Err(error) => {
                    pidfd_send_signal(&pidfd, Signal::KILL).unwrap_or_default();
                    while let Err(Errno::INTR) = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {}
                    Err(error)
                }
            }
        }
    }
}

/// In the child: waits for its id maps, takes its ids, and executes our own program as init with an empty environment. Returns only on failure.
fn become_init(identity: Identity, program: &OwnedFd, control: &OwnedFd, go: &OwnedFd) -> StepError {
    let prepared = wait_for_maps(go)
        .and_then(|()| signals::reset_all().at(|| "reset signals".into()))
        .and_then(|()| prepare_for_death())
        .and_then(|()| take_ids(identity))
        .and_then(|()| place(program, control));
    match prepared {
        Err(error) => error,
        Ok(program) => {
            let argv = [CString::new(INIT_NAME).unwrap_or_default()];
            let errno = execveat(program.as_fd(), &StringArray::of(&argv), &StringArray::of(&[]));
            StepError { step: "execute init".into(), errno }
        }
    }
}

fn wait_for_maps(go: &OwnedFd) -> Result<(), StepError> {
    match rustix::io::retry_on_intr(|| rustix::io::read(go, &mut [0u8; 1])).at(|| "wait for the id maps".into())? {
        0 => Err(Errno::PIPE).at(|| "wait for the id maps".into()),
        _ => Ok(()),
    }
}

/// How readily the kernel's memory killer takes the sandbox before anything else of the host (the highest is 1000). Inherited by all inside.
const OOM_SCORE: &str = "800";

/// Now, while the file is still ours: what follows makes this process one that cannot be looked into.
fn prepare_for_death() -> Result<(), StepError> {
    let write = |path: &str, text: &str| File::options().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    write("/proc/self/oom_score_adj", OOM_SCORE).at(|| "set the memory killer's score".into())?;
    // Where the host hands crashes to a program of its own, no limit holds: what it gets then has no memory in it.
    match write("/proc/self/coredump_filter", "0") {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at(|| "keep memory out of core files".into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// As root: user 0 of the namespace, which keeps its capabilities over exec. As an ordinary user the id is the agent's, and the
/// capabilities (of this namespace only) are carried over exec as ambient ones.
fn take_ids(identity: Identity) -> Result<(), StepError> {
    match identity {
        Identity::Range { .. } => {
            ids::drop_groups().at(|| "drop groups".into())?;
            ids::set_group(0).at(|| "set the group".into())?;
            ids::set_user(0).at(|| "set the user".into())
        }
        Identity::Single { .. } => {
            let held = capabilities(None).at(|| "read capabilities".into())?.permitted;
            let sets = CapabilitySets { effective: held, permitted: held, inheritable: held };
            set_capabilities(None, sets).at(|| "keep capabilities".into())?;
            raise_all(held).at(|| "keep capabilities".into())
        }
    }
}

fn raise_all(held: CapabilitySet) -> Result<(), Errno> {
    held.iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

/// Puts the socket at its number and the null device at the first three; every other descriptor is closed by exec. The program's descriptor
/// may stand where the socket goes, so it moves out of the way first.
fn place(program: &OwnedFd, control: &OwnedFd) -> Result<OwnedFd, StepError> {
    let at = || "hand init its socket".to_owned();
    let opened = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).at(at)?;
    let [program, control, null] = [program, control, &opened].map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, CONTROL_FD + 1));
    drop(opened); // it may have the socket's number, and would close the socket later
    let (program, control, null) = (program.at(at)?, control.at(at)?, null.at(at)?);
    close_from(CONTROL_FD as u32, true).at(at)?;
    crate::sys::exec::place(control.as_fd(), CONTROL_FD).at(at)?;
    crate::sys::exec::keep_only(CONTROL_FD).at(at)?;
    rustix::stdio::dup2_stdin(&null).at(at)?;
    rustix::stdio::dup2_stdout(&null).at(at)?;
    rustix::stdio::dup2_stderr(&null).at(at)?;
    Ok(program)
}

/// Sends the plan, joins the cgroup meanwhile, and waits until init stands confined.
fn build(launched: &mut Launched, plan: &Plan, cancel: Option<BorrowedFd<'_>>) -> Result<(), SetupError> {
    let control = launched.control.as_fd();
    let sources = match plan.identity {
        Identity::Range { .. } => crate::source::open_all(&plan.sources, plan.identity)?,
        Identity::Single { .. } => Vec::new(),
    };
    let file = to_memory_file(plan).at(|| "write the plan".into())?;
    let mut descriptors = vec![file.as_fd()];
    descriptors.extend(borrow_all(&sources));
    match send(control, &Order::Build, &descriptors) {
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {} // init has ended; what it said before tells why
        Err(errno) => Err(errno).at(|| "send the plan".into())?,
    }
    if let Some(group) = &launched.group {
        group.join(launched.pid).at(|| "put the sandbox into its cgroup".into())?;
    }
    let patience = Patience { ends_at: Instant::now() + Duration::from_millis(plan.wall_ms), cancel };
    launched.handles = expect_report(control, &patience, |report| matches!(report, Report::Built))?;
    send(control, &Order::Confine, &[]).at(|| "confine the sandbox".into())?;
    expect_report(control, &patience, |report| matches!(report, Report::Confined)).map(drop)
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

fn expect_report(control: BorrowedFd<'_>, patience: &Patience<'_>, is_wanted: fn(&Report) -> bool) -> Result<Vec<OwnedFd>, SetupError> {
    patience.wait(control)?;
    match receive::<Report>(control, RecvFlags::empty()).at(|| "hear from init".into())? {
        Some((report, descriptors)) if is_wanted(&report) => Ok(descriptors),
        Some((Report::Failed { step, errno }, _)) => Err(StepError { step, errno: Errno::from_raw_os_error(errno) }.into()),
        Some((other, _)) => Err(SetupError { step: "hear from init".into(), cause: format!("it said {other:?}"), hint: None }),
        None => Err(SetupError { step: "hear from init".into(), cause: "it ended".into(), hint: None }),
    }
}
