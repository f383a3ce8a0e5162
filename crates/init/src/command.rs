//! Starts one command: a forked child gives up everything, puts the filters in force and executes the program.

use alloc::ffi::CString;
use alloc::vec::Vec;

use ringfence_wire::{Blueprint, Execution, Failed, Instruction, decode, encode};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, chdir, setsid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::failure::{At, Failure};
use crate::links::read_all;
use crate::sys;
use crate::sys::process::Close;

/// What all commands of a sandbox have in common, made ready once.
#[derive(Debug)]
pub(crate) struct Program {
    ids: Option<(u32, u32)>,
    limits: Vec<(u32, u64)>,
    rules: OwnedFd,
    /// Where commands do not inherit it.
    filter: Option<Vec<Instruction>>,
}

/// What one command is started from.
#[derive(Debug)]
pub(crate) struct Given<'f> {
    /// The supervisor's name for it.
    pub(crate) id: u32,
    /// Its [`Execution`], in a memory file.
    pub(crate) execution: &'f OwnedFd,
    /// Stdout, stderr, and stdin if there is any; then the program, where it is sent.
    pub(crate) streams: &'f [OwnedFd],
    /// The socket to the supervisor.
    pub(crate) control: &'f OwnedFd,
}

impl Program {
    pub(crate) fn prepare(blueprint: &Blueprint) -> Result<Self, Failure> {
        let filter = (!blueprint.is_inits_filter).then(|| blueprint.filter.clone());
        Ok(Self { ids: blueprint.ids, limits: blueprint.limits.clone(), rules: ruleset(blueprint)?, filter })
    }

    /// Forks and executes; answers once the program runs, or with what failed.
    ///
    /// `patience` waits until the child has said something, or until there is a better reason to go on: a command that already runs can stop the
    /// child before it executes, and must not stop init with it.
    pub(crate) fn start(&self, given: &Given<'_>, patience: &dyn Fn(&OwnedFd) -> Result<(), Errno>) -> Result<Pid, Failed> {
        let start = |act| move |errno| Failure::new(act, errno).into_wire();
        let (heard, said) = pipe_with(PipeFlags::CLOEXEC).map_err(start("make a pipe"))?;
        let Some(pid) = sys::process::fork().map_err(start("fork"))? else {
            let failed = self.become_program(given).into_wire();
            // If even this cannot be said, the exit status below says that something failed.
            crate::view::write_all(&said, &encode(&failed).unwrap_or_default()).unwrap_or_default();
            sys::process::exit_now(127)
        };
        drop(said);
        if let Err(errno) = patience(&heard) {
            // It is reaped like any other that ends.
            sys::process::kill(pid, libc::SIGKILL).unwrap_or_default();
            return Err(start("hear from the child")(errno));
        }
        let mut words = [0; 256];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&heard, &mut words)).map_err(start("hear from the child"))?;
        match decode(&words[..length]) {
            Some(failed) => Err(failed),
            None => Ok(pid),
        }
    }

    /// In the child; returns only on failure.
    fn become_program(&self, given: &Given<'_>) -> Failure {
        match self.give_up(given) {
            Ok(program) => program.execute(),
            Err(failure) => failure,
        }
    }

    /// The order matters: what needs rights comes before they are given up, a filter that is not init's is last before exec.
    fn give_up<'f>(&self, given: &Given<'f>) -> Result<Invocation<'f>, Failure> {
        setsid().at("start a session")?;
        let execution: Execution =
            read_all(given.execution).and_then(|bytes| decode(&bytes).ok_or(Errno::BADMSG)).at("read the command")?;
        let (sent, streams) = sent_program(&execution, given.streams).at("take the program")?;
        if execution.terminal.is_none() {
            take_streams(streams).at("take the streams")?;
        }
        sys::signals::unblock_all().at("unblock signals")?;
        sys::signals::ignore(libc::SIGXFSZ).at("ignore a signal")?; // a file over the limit is an error to see, not a death
        chdir(execution.folder.as_slice()).at("enter the folder")?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        for (number, (limit, value)) in self.limits.iter().enumerate() {
            sys::process::set_limit(*limit, *value).at_item("limit", number)?;
        }
        self.drop_rights()?;
        if let Some(window) = execution.terminal {
            crate::terminal::take(given.id, window, given.control).at("take a terminal")?;
        }
        set_no_new_privs(true).at("set no_new_privs")?;
        sys::landlock::restrict_self(&self.rules).at("enforce the path rules")?;
        let program = Invocation::of(&execution, sent).at("prepare the arguments")?;
        sys::process::close_from(3, Close::AtExec).at("close descriptors")?;
        self.filter.as_deref().map_or(Ok(()), sys::seccomp::load).at("load the system call filter")?;
        Ok(program)
    }

    fn drop_rights(&self) -> Result<(), Failure> {
        if let Some((uid, gid)) = self.ids {
            sys::process::take_ids(uid, gid).at("take the agent's ids")?;
        }
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none }).at("drop capabilities")
    }
}

fn ruleset(blueprint: &Blueprint) -> Result<OwnedFd, Failure> {
    let ruleset = sys::landlock::create(blueprint.handled).at("prepare the path rules")?;
    for (number, (path, access)) in blueprint.rules.iter().enumerate() {
        let folder = open(path.as_slice(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).at_item("path rule", number)?;
        sys::landlock::allow_beneath(&ruleset, &folder, *access & blueprint.handled).at_item("path rule", number)?;
    }
    Ok(ruleset)
}

/// The program, where it is one of the descriptors, and the streams.
fn sent_program<'f>(execution: &Execution, descriptors: &'f [OwnedFd]) -> Result<(Option<&'f OwnedFd>, &'f [OwnedFd]), Errno> {
    match (execution.is_sent, descriptors) {
        (false, streams) => Ok((None, streams)),
        (true, [streams @ .., program]) => Ok((Some(program), streams)),
        (true, []) => Err(Errno::BADF),
    }
}

fn take_streams(streams: &[OwnedFd]) -> Result<(), Errno> {
    let [stdout, stderr, stdin @ ..] = streams else { return Err(Errno::BADF) };
    match stdin.first() {
        Some(stdin) => rustix::stdio::dup2_stdin(stdin)?,
        None => rustix::stdio::dup2_stdin(open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.as_fd())?,
    }
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)
}

/// A program with its arguments, ready to be executed without further allocation of consequence.
struct Invocation<'f> {
    sent: Option<&'f OwnedFd>,
    candidates: Vec<CString>,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

impl<'f> Invocation<'f> {
    fn of(execution: &Execution, sent: Option<&'f OwnedFd>) -> Result<Self, Errno> {
        let strings = |texts: &[Vec<u8>]| {
            texts.iter().map(|text| CString::new(text.as_slice()).map_err(|_| Errno::INVAL)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            sent,
            candidates: strings(&execution.candidates)?,
            argv: strings(&execution.argv)?,
            environment: strings(&execution.environment)?,
        })
    }

    /// Tries each candidate, as execvp(3) does; a text without `#!` is given to the shell.
    fn execute(&self) -> Failure {
        if let Some(program) = self.sent {
            return Failure::new("exec", sys::process::execute_file(program.as_fd(), &self.argv, &self.environment));
        }
        let mut worst = Errno::NOENT;
        for path in &self.candidates {
            match sys::process::execve(path, &self.argv, &self.environment) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::NOEXEC => worst = self.execute_by_shell(path),
                Errno::ACCESS => worst = Errno::ACCESS,
                other => return Failure::new("exec", other),
            }
        }
        Failure::new("exec", worst)
    }

    fn execute_by_shell(&self, path: &CString) -> Errno {
        let argv: Vec<CString> = [CString::from(c"sh"), path.clone()].into_iter().chain(self.argv.iter().skip(1).cloned()).collect();
        sys::process::execve(c"/bin/sh", &argv, &self.environment)
    }
}
