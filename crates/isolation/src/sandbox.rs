//! One sandbox lifetime: create, start commands, wait for them while holding the limits, finish.
//!
//! One thread, one poll loop: reports of init, the streams of every running command, the caller's stdin, and a tick at which the limits that the
//! kernel does not hold by itself are looked at. Init has a clock of its own, so a supervisor that is stopped cannot extend a run.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_policy::LimitKey;
use ringfence_wire::{Execution, Order, Report};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::attendance::Occurrence;
use crate::cgroup::Group;
use crate::control::{receive, send, to_memory_file};
use crate::creation::Creation;
use crate::identity::IdentityLease;
use crate::launch::{Launched, SetupError};
use crate::meter::Meter;
use crate::output::{Budget, Capture, Captured};
use crate::plan::Identity;
use crate::probe::probe_program;
use crate::running::Running;
use crate::stdin::{Stdin, StdinPump};
use crate::text::OsText;

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<OsText>,
    /// Variables in addition to the sandbox's own.
    pub environment: Vec<(String, OsText)>,
    /// Folder in which it starts; the workspace if none is named.
    pub folder: Option<OsText>,
    /// The size of the terminal that it gets in place of streams. What it writes there is its standard output, what is fed its input.
    pub terminal: Option<Window>,
}

impl Command {
    /// A command that starts in the workspace and has no terminal.
    pub fn new(argv: Vec<OsText>, environment: Vec<(String, OsText)>) -> Self {
        Self { argv, environment, folder: None, terminal: None }
    }
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// Where a command's streams go.
#[derive(Debug)]
pub struct Streams<'a> {
    /// Its standard input.
    pub stdin: Stdin,
    /// Its standard output.
    pub stdout: Capture<'a>,
    /// Its standard error.
    pub stderr: Capture<'a>,
}

/// How a command ended, and by whose doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exited {
        /// Its status.
        code: i32,
    },
    /// By a signal.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// By a limit.
    Limit {
        /// Which.
        limit: LimitKey,
    },
    /// It could not be started, or the sandbox failed around it.
    Failed {
        /// At which step.
        step: String,
        /// Why.
        errno: i32,
    },
    /// By a signal to the supervisor.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

/// What is known of a command at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// How it ended.
    pub end: End,
    /// What it wrote.
    pub stdout: Captured,
    /// What it wrote as errors.
    pub stderr: Captured,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// From creation to the end.
    pub wall: Duration,
    /// Processor time of the whole tree.
    pub cpu: Duration,
    /// Most memory at once, bytes.
    pub memory_peak_bytes: u64,
    /// Most processes at once.
    pub processes_peak: u64,
}

/// What remains of a sandbox whose commands are dead: nothing but its init, which is ending, may still be there until [`close`](Self::close).
#[derive(Debug)]
pub struct Remains {
    /// What was used.
    pub usage: Usage,
    /// Bounding limits that were reached, as far as the host can tell.
    pub limits_reached: Vec<LimitKey>,
    /// The workspace, to be read by export.
    pub workspace: OwnedFd,
    /// The file system of all that could be written.
    pub scratch: OwnedFd,
    /// The changes to a project's view.
    pub changes: Option<OwnedFd>,
    launched: Launched,
    _lease: IdentityLease,
}

impl Remains {
    pub(crate) fn identity(&self) -> Identity {
        self._lease.identity
    }

    /// Waits until init is gone and the cgroup is removed. (Dropping does the same, without telling of errors.)
    pub fn close(mut self) -> Result<(), SetupError> {
        self.launched.end().map(drop)
    }
}

/// A standing sandbox.
#[derive(Debug)]
pub struct Sandbox<'a> {
    pub(crate) launched: Launched,
    pub(crate) identity: Identity,
    lease: IdentityLease,
    pub(crate) meter: Meter,
    output_bytes: u64,
    environment: Vec<(String, String)>,
    pub(crate) folder: String,
    cancel: Option<BorrowedFd<'a>>,
    pub(crate) running: Vec<Running<'a>>,
    /// What those who attend to the sandbox have not heard yet.
    pub(crate) occurred: Vec<Occurrence>,
    /// Pipes of commands that have ended, for what they left running: read, so that nobody meets a broken pipe, and thrown away.
    pub(crate) leftovers: Vec<OwnedFd>,
    pub(crate) ended_by: Option<End>,
    next_id: u32,
    /// The command with which the sandbox ends.
    last: Option<u32>,
    /// Init has said that it is alone.
    is_empty: bool,
    /// It was seen to the end.
    is_over: bool,
}

impl<'a> Sandbox<'a> {
    /// Takes over a sandbox that stands.
    pub(crate) fn over(launched: Launched, started_at: Instant, creation: Creation<'_, 'a>, lease: IdentityLease) -> Self {
        Self {
            identity: creation.plan.identity,
            lease,
            meter: Meter::start(started_at, launched.pid, creation.limits, creation.memory_grade, creation.plan.disk()),
            output_bytes: creation.limits.get(LimitKey::Output).unwrap_or(u64::MAX),
            environment: creation.plan.environment.clone(),
            folder: creation.plan.workspace.clone(),
            cancel: creation.cancel,
            launched,
            running: Vec::new(),
            occurred: Vec::new(),
            leftovers: Vec::new(),
            ended_by: None,
            next_id: 0,
            last: None,
            is_empty: false,
            is_over: false,
        }
    }

    /// Its init.
    pub fn init(&self) -> Pid {
        self.launched.pid
    }

    /// The doors in the order of the plan, to be used outside; none the second time.
    pub fn take_doors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.launched.doors)
    }

    /// Starts a command beside those that run; answers with the number by which to wait for it. With `is_last` the sandbox ends with it.
    pub fn start(&mut self, command: &Command, streams: Streams<'a>, is_last: bool) -> Result<u32, Errno> {
        self.start_program(None, command, streams, is_last)
    }

    /// Starts our own probe, confined as any command is; `command` has its arguments. Else as [`start`](Self::start).
    pub fn start_probe(&mut self, command: &Command, streams: Streams<'a>, is_last: bool) -> Result<u32, Errno> {
        self.start_program(Some(probe_program()?), command, streams, is_last)
    }

    fn start_program(
        &mut self,
        program: Option<BorrowedFd<'_>>,
        command: &Command,
        streams: Streams<'a>,
        is_last: bool,
    ) -> Result<u32, Errno> {
        let id = self.next_id;
        self.next_id += 1;
        self.last = self.last.or(is_last.then_some(id));
        let has_pipes = command.terminal.is_none();
        let (stdin, given) = has_pipes.then(|| StdinPump::of(streams.stdin)).transpose()?.flatten().unzip();
        let (stdout, stderr) = (has_pipes.then(pipe).transpose()?, has_pipes.then(pipe).transpose()?);
        let ends: Vec<&OwnedFd> = stdout.iter().chain(&stderr).map(|pipe| &pipe.write).chain(&given).collect();
        ends.iter().try_for_each(|pipe| self.give_to_agent(pipe))?;
        let file = to_memory_file(&Execution { is_sent: program.is_some(), ..self.execution(command) })?;
        let mut descriptors = vec![file.as_fd()];
        descriptors.extend(ends.into_iter().map(AsFd::as_fd).chain(program));
        self.order(&Order::Execute { id, is_last }, &descriptors)?;
        self.meter.rouse();
        self.running.push(Running {
            id,
            stdin,
            pipes: [stdout, stderr].map(|pipe| pipe.map(|pipe| pipe.read)),
            captures: [streams.stdout, streams.stderr],
            budget: Budget::of(self.output_bytes),
            is_started: is_last, // of the last one nothing is said
            end: None,
            fault: None,
        });
        Ok(id)
    }

    /// A sandbox that has just ended takes no order: whoever waits finds out by what it ended.
    pub(crate) fn order(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        match send(self.launched.control.as_fd(), order, descriptors) {
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn execution(&self, command: &Command) -> Execution {
        let own = self.environment.iter().filter(|(name, _)| !command.environment.iter().any(|(n, _)| n == name));
        let own = own.map(|(name, value)| (name.as_str(), value.as_bytes()));
        let environment: Vec<(&str, &[u8])> =
            own.chain(command.environment.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))).collect();
        let search = environment.iter().find(|(name, _)| *name == "PATH").map(|(_, value)| *value).unwrap_or_default();
        Execution {
            is_sent: false,
            candidates: candidates(command.argv.first().map(OsText::as_bytes).unwrap_or_default(), search),
            argv: command.argv.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: environment.iter().map(|(name, value)| [name.as_bytes(), value].join(&b'=')).collect(),
            folder: command.folder.as_ref().map_or_else(|| self.folder.clone().into_bytes(), |folder| folder.as_bytes().to_vec()),
            terminal: command.terminal.map(|Window { rows, columns }| ringfence_wire::Window { rows, columns }),
        }
    }

    /// So that the program can open its streams by name, such as `/dev/stdout`.
    fn give_to_agent(&self, pipe: &OwnedFd) -> Result<(), Errno> {
        match self.identity {
            Identity::Range { first } => {
                let id = first + crate::identity::AGENT;
                rustix::fs::fchown(pipe, Some(rustix::fs::Uid::from_raw(id)), Some(rustix::fs::Gid::from_raw(id)))
            }
            Identity::Single { .. } => Ok(()),
        }
    }

    /// Waits until a command has ended. Once the last one has, every process is dead, and what they wrote is still read.
    pub fn wait(&mut self, id: u32) -> Result<CommandOutcome, Errno> {
        while self.ended_by.is_none() && !self.is_done(id)? {
            self.turn(None)?;
        }
        let is_over = self.last == Some(id) || self.ended_by.is_some();
        if is_over {
            self.end_everything();
        }
        let at = self.running.iter().position(|r| r.id == id).ok_or(Errno::INVAL)?;
        let mut running = self.running.swap_remove(at);
        running.drain(is_over, self.cancel)?;
        let end = self.ended_by.clone().or(running.end).unwrap_or(End::Failed { step: "wait".into(), errno: 0 });
        let end = running.fault.map_or(end, |errno| End::Failed { step: "pass on output".into(), errno: errno.raw_os_error() });
        let [stdout, stderr] = running.captures.map(Capture::finish);
        if stdout.cut + stderr.cut > 0 {
            self.meter.reach(LimitKey::Output);
        }
        Ok(CommandOutcome { end: self.settle(end), stdout, stderr })
    }

    /// A last command is done once nothing else is left; one that could not be started leaves init waiting for another.
    fn is_done(&self, id: u32) -> Result<bool, Errno> {
        let end = &self.find(id)?.end;
        Ok(match end {
            None => false,
            Some(End::Failed { .. }) => true,
            Some(_) => self.last != Some(id) || self.is_empty,
        })
    }

    /// Ends the sandbox and hands out what remains.
    pub fn finish(mut self) -> Result<Remains, Errno> {
        self.end_everything();
        let mut handles = std::mem::take(&mut self.launched.handles).into_iter();
        let (workspace, scratch, _root) = (handles.next().ok_or(Errno::BADF)?, handles.next().ok_or(Errno::BADF)?, handles.next());
        let (usage, limits_reached) = self.meter.reading();
        Ok(Remains { usage, limits_reached, workspace, scratch, changes: handles.next(), launched: self.launched, _lease: self.lease })
    }

    fn find(&self, id: u32) -> Result<&Running<'a>, Errno> {
        self.running.iter().find(|r| r.id == id).ok_or(Errno::INVAL)
    }

    /// One turn of the loop, which ends at once when `wake` is readable.
    pub(crate) fn turn(&mut self, wake: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let timeout = self.meter.patience();
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let ready = self.poll(&timeout, wake)?;
        if ready.control {
            self.hear()?;
        }
        for running in &mut self.running {
            running.pump();
        }
        self.leftovers.retain(is_held);
        // Where the run has ended by something else the wish to stop is left for whoever looks next.
        if ready.cancel && self.ended_by.is_none() {
            self.cancelled();
        }
        if ready.death && !self.is_empty {
            self.died()?;
        }
        self.look_at_limits();
        Ok(())
    }

    fn poll(&self, timeout: &Timespec, wake: Option<BorrowedFd<'_>>) -> Result<Ready, Errno> {
        let mut waiting = vec![PollFd::new(&self.launched.control, PollFlags::IN), PollFd::new(&self.launched.pidfd, PollFlags::IN)];
        waiting.extend(self.cancel.iter().map(|cancel| PollFd::from_borrowed_fd(*cancel, PollFlags::IN)));
        waiting.extend(self.running.iter().flat_map(Running::waits_for));
        waiting.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
        match poll(&mut waiting, Some(timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let is_ready = |at: usize| waiting.get(at).is_some_and(|w| !w.revents().is_empty());
        Ok(Ready { control: is_ready(0), death: is_ready(1), cancel: self.cancel.is_some() && is_ready(2) })
    }

    /// Reads every report that is there.
    fn hear(&mut self) -> Result<(), Errno> {
        loop {
            match receive(self.launched.control.as_fd(), RecvFlags::DONTWAIT) {
                Ok(Some((report, descriptors))) => self.note(report, descriptors)?,
                Ok(None) | Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn note(&mut self, report: Report, mut descriptors: Vec<OwnedFd>) -> Result<(), Errno> {
        match report {
            Report::Started { id, pid } => self.running.iter_mut().filter(|r| r.id == id).for_each(|r| r.started(pid)),
            Report::Terminal { id } => self.connect(id, descriptors.pop().ok_or(Errno::BADF)?)?,
            Report::Socket => self.occurred.push(Occurrence::Socket { socket: descriptors.pop() }),
            Report::Ended { id, status } => self.set_end(id, end_of(status)),
            Report::NotStarted { id, failed } => self.set_end(id, failed_end(failed)),
            Report::TimeUp => self.end_by(End::Limit { limit: LimitKey::Wall }),
            Report::Failed(failed) => self.end_by(failed_end(failed)),
            Report::Empty { cpu_us, memory_peak_bytes } => {
                self.meter.hear(Duration::from_micros(cpu_us), memory_peak_bytes);
                self.is_empty = true;
            }
            Report::Born { .. } | Report::Standing => {}
        }
        Ok(())
    }

    /// A command's terminal is there.
    fn connect(&mut self, id: u32, master: OwnedFd) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&master, true)?;
        if let Some(running) = self.running.iter_mut().find(|r| r.id == id) {
            running.stdin = Some(StdinPump::into(rustix::io::fcntl_dupfd_cloexec(&master, 0)?));
            running.pipes[0] = Some(master);
        }
        Ok(())
    }

    fn set_end(&mut self, id: u32, end: End) {
        if let Some(running) = self.running.iter_mut().find(|r| r.id == id) {
            running.end = Some(end);
        }
    }

    pub(crate) fn end_by(&mut self, end: End) {
        self.ended_by.get_or_insert(end);
    }

    fn cancelled(&mut self) {
        let signal = self.cancel.and_then(crate::sys::signals::stop_signal).unwrap_or(libc::SIGTERM);
        self.end_by(End::Interrupted { signal });
    }

    /// Init is gone though nobody asked: by the memory killer, or it failed.
    fn died(&mut self) -> Result<(), Errno> {
        self.hear()?;
        let kills = self.launched.group.as_ref().map_or(0, |group| group.usage().memory_kills);
        self.end_by(match kills {
            0 => End::Failed { step: "keep the sandbox alive: its init ended".into(), errno: 0 },
            _ => End::Limit { limit: LimitKey::Memory },
        });
        Ok(())
    }

    /// Ends the run over an ending limit that was met.
    fn look_at_limits(&mut self) {
        if let Some(limit) = self.meter.look(
            self.launched.group.as_ref(),
            self.launched.handles.get(1),
            self.running.is_empty() && self.leftovers.is_empty(),
        ) {
            self.end_by(End::Limit { limit });
        }
    }

    /// Kills what is left, and counts for the last time. Where init has said that nothing is left it is ending by itself, and nobody has to wait for
    /// that yet. A command that has ended by itself met no limit, but for memory that one of its processes was killed for.
    pub(crate) fn end_everything(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let counted = self.launched.group.as_ref().map(Group::usage);
        let counted = match self.is_empty {
            true => counted,
            false => {
                // Without a cgroup only the living can be counted.
                self.meter.take_stock(counted, self.launched.handles.get(1));
                self.launched.end().unwrap_or_else(|error| {
                    self.ended_by.get_or_insert(End::Failed { step: error.to_string(), errno: 0 });
                    counted
                })
            }
        };
        if let Some(limit) = self.meter.take_stock(counted, self.launched.handles.get(1)) {
            self.end_by(End::Limit { limit });
        }
    }

    /// A signal that a limit sent is that limit's doing.
    pub(crate) fn settle(&self, end: End) -> End {
        match (end, &self.ended_by) {
            (End::Signaled { signal: libc::SIGXCPU }, None) if self.meter.is_cpu_met() => End::Limit { limit: LimitKey::Cpu },
            (_, Some(by)) => by.clone(),
            (end, None) => end,
        }
    }
}

/// The two ends of a new pipe.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

fn pipe() -> Result<Pipe, Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok(Pipe { read, write })
}

/// Reads what is there, up to a megabyte, from a pipe whose command has ended; false once nobody inside holds it any more. Nothing waits for such a pipe:
/// it is read as often as limits are looked at, so that a flood into it costs little.
fn is_held(pipe: &OwnedFd) -> bool {
    let mut thrown_away = [0u8; 64 << 10];
    for _ in 0..16 {
        match rustix::io::read(pipe, &mut thrown_away) {
            Ok(0) | Err(Errno::IO) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
    true
}

struct Ready {
    control: bool,
    death: bool,
    cancel: bool,
}

/// What execvp(3) would try for a name: the name itself, or the name in each folder of the search path.
fn candidates(name: &[u8], search: &[u8]) -> Vec<Vec<u8>> {
    match name.contains(&b'/') || name.is_empty() {
        true => vec![name.to_vec()],
        false => search.split(|byte| *byte == b':').map(|folder| [folder, name].join(&b'/')).collect(),
    }
}

fn failed_end(failed: ringfence_wire::Failed) -> End {
    End::Failed { step: failed.act.into_owned(), errno: failed.errno }
}

/// The status word of wait(2).
fn end_of(status: i32) -> End {
    match (libc::WIFEXITED(status), libc::WIFSIGNALED(status)) {
        (true, _) => End::Exited { code: libc::WEXITSTATUS(status) },
        (false, true) => End::Signaled { signal: libc::WTERMSIG(status) },
        (false, false) => End::Failed { step: "wait".into(), errno: 0 },
    }
}

/// The caller's standard input, as a descriptor of its own.
pub fn own_stdin() -> io::Result<OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned()
}
