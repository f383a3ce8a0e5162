//! Starts one command: a forked child gives up everything, puts the filters in force and executes the program.

use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, chdir, setrlimit, setsid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};

use crate::control::Execution;
use crate::plan::{Access, Account, Identity, PathRule, Plan, ProcessLimit};
use crate::step::{AtStep, StepError};
use crate::sys::exec::{StringArray, close_from, execve};
use crate::sys::{clone, ids, seccomp, signals};

/// What all commands of a sandbox have in common, made ready once.
pub(super) struct Program {
    account: Account,
    has_own_ids: bool,
    limits: Vec<(ProcessLimit, u64)>,
    rules: RulesetCreated,
    filter: Vec<libc::sock_filter>,
}

/// How a child that could not execute says why.
#[derive(Serialize, Deserialize)]
struct Failure {
    step: String,
    errno: i32,
}

impl Program {
    pub(super) fn prepare(plan: &Plan) -> Result<Self, StepError> {
        Ok(Self {
            account: plan.account.clone(),
            has_own_ids: matches!(plan.identity, Identity::Range { .. }),
            limits: plan.process_limits.clone(),
            rules: ruleset(&plan.path_rules)?,
            filter: crate::seccomp::compile(&plan.filter),
        })
    }

    /// Forks and executes; answers once the program runs, or with the step that failed. `streams`: stdout, stderr, and stdin if there is any.
    ///
    /// `patience` waits until the child has said something, or until there is a better reason to go on: a command that already runs can stop the
    /// child before it executes, and must not stop init with it.
    pub(super) fn start(
        &self,
        execution: &Execution,
        streams: &[OwnedFd],
        patience: &dyn Fn(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<Pid, StepError> {
        let (heard, said) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).at(|| "make a pipe".into())?;
        let Some(pid) = clone::fork().at(|| "fork".into())? else {
            let failed = self.become_program(execution, streams).unwrap_or_else(|error| error);
            let failure = Failure { step: failed.step, errno: failed.errno.raw_os_error() };
            // If even this cannot be said, the exit status below says that something failed.
            serde_json::to_writer(fs::File::from(said), &failure).unwrap_or_default();
            clone::exit_now(127)
        };
        drop(said);
        patience(&heard).at(|| "hear from the child".into())?;
        let mut words = Vec::new();
        fs::File::from(heard).read_to_end(&mut words).at(|| "hear from the child".into())?;
        match serde_json::from_slice::<Failure>(&words) {
            Ok(failure) => Err(StepError { step: failure.step, errno: Errno::from_raw_os_error(failure.errno) }),
            Err(_) => Ok(pid),
        }
    }

    /// In the child. The order matters: what needs rights comes before they are given up, the filter is last before exec.
    fn become_program(&self, execution: &Execution, streams: &[OwnedFd]) -> Result<StepError, StepError> {
        setsid().at(|| "start a session".into())?;
        take_streams(streams)?;
        signals::reset_all().at(|| "reset signals".into())?;
        signals::ignore(libc::SIGXFSZ); // a file over the limit is an error to see, not a death
        chdir(execution.folder.as_str()).at(|| format!("enter {}", execution.folder))?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        for (limit, value) in &self.limits {
            set_limit(*limit, *value).at(|| format!("set the {limit:?} limit"))?;
        }
        self.drop_rights()?;
        set_no_new_privs(true).at(|| "set no_new_privs".into())?;
        self.restrict_paths()?;
        let program = Invocation::of(execution)?;
        close_from(3, true).at(|| "close descriptors".into())?;
        seccomp::load(&self.filter).at(|| "load the system call filter".into())?;
        Ok(program.execute())
    }

    fn drop_rights(&self) -> Result<(), StepError> {
        if self.has_own_ids {
            ids::drop_groups().at(|| "drop groups".into())?;
            ids::set_group(self.account.gid).at(|| "set the group".into())?;
            ids::set_user(self.account.uid).at(|| "set the user".into())?;
        }
        let none =
            CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
        set_capabilities(None, none).at(|| "drop capabilities".into())
    }

    fn restrict_paths(&self) -> Result<(), StepError> {
        let rules = self.rules.try_clone().at(|| "copy the path rules".into())?;
        match rules.restrict_self() {
            Ok(status) if status.ruleset != RulesetStatus::NotEnforced => Ok(()),
            Ok(_) => Err(Errno::OPNOTSUPP).at(|| "enforce the path rules".into()),
            Err(error) => Err(Errno::PERM).at(|| format!("enforce the path rules ({error})")),
        }
    }
}

fn take_streams(streams: &[OwnedFd]) -> Result<(), StepError> {
    let [stdout, stderr, stdin @ ..] = streams else { return Err(Errno::BADF).at(|| "take the streams".into()) };
    let nothing = fs::File::open("/dev/null").at(|| "open /dev/null".into())?;
    let stdin = stdin.first().map_or(nothing.as_fd(), AsFd::as_fd);
    rustix::stdio::dup2_stdin(stdin).at(|| "take stdin".into())?;
    rustix::stdio::dup2_stdout(stdout.as_fd()).at(|| "take stdout".into())?;
    rustix::stdio::dup2_stderr(stderr.as_fd()).at(|| "take stderr".into())
}

/// The rules as a Landlock ruleset. Rights that this kernel does not know yet are left out; the least version was checked before.
fn ruleset(rules: &[PathRule]) -> Result<RulesetCreated, StepError> {
    let failed = |error: &dyn std::fmt::Display| StepError { step: format!("prepare the path rules ({error})"), errno: Errno::OPNOTSUPP };
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5)).and_then(Ruleset::create).map_err(|e| failed(&e))?;
    for rule in rules {
        let path = match PathFd::new(&rule.path) {
            Ok(path) => path,
            Err(error) => return Err(failed(&error)),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(path, rights(rule.access))).map_err(|e| failed(&e))?;
    }
    Ok(ruleset)
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    match access {
        Access::List => AccessFs::ReadDir.into(),
        Access::Read => read,
        Access::Execute => read | AccessFs::Execute,
        Access::Device => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        Access::Write => AccessFs::from_all(ABI::V5) & !BitFlags::from(AccessFs::Execute),
        Access::WriteExecute => AccessFs::from_all(ABI::V5),
    }
}

fn set_limit(limit: ProcessLimit, value: u64) -> Result<(), Errno> {
    let resource = match limit {
        ProcessLimit::Processes => Resource::Nproc,
        ProcessLimit::FileSize => Resource::Fsize,
        ProcessLimit::OpenFiles => Resource::Nofile,
        ProcessLimit::Core => Resource::Core,
        ProcessLimit::Cpu => Resource::Cpu,
        ProcessLimit::LockedMemory => Resource::Memlock,
        ProcessLimit::Data => Resource::Data,
        ProcessLimit::PendingSignals => Resource::Sigpending,
        ProcessLimit::MessageQueues => Resource::Msgqueue,
        ProcessLimit::RealTimePriority => Resource::Rtprio,
        ProcessLimit::Nice => Resource::Nice,
    };
    let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let value = Some(value.min(most));
    setrlimit(resource, Rlimit { current: value, maximum: value })
}

/// A program with its arguments, ready to be executed without further allocation of consequence.
struct Invocation {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

impl Invocation {
    fn of(execution: &Execution) -> Result<Self, StepError> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::INVAL).at(|| "prepare the arguments".into());
        let argv = execution.argv.iter().map(|a| text(a.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let name = execution.argv.first().map(|n| n.as_bytes()).unwrap_or_default();
        let search = execution.environment.iter().find(|(n, _)| n == "PATH").map(|(_, v)| v.as_bytes()).unwrap_or_default();
        let candidates = match name.contains(&b'/') || name.is_empty() {
            true => vec![text(name)?],
            false => search.split(|b| *b == b':').map(|folder| text(&[folder, name].join(&b'/'))).collect::<Result<Vec<_>, _>>()?,
        };
        let pair = |(name, value): &(String, crate::text::OsText)| text(&[name.as_bytes(), value.as_bytes()].join(&b'='));
        Ok(Self { candidates, argv, environment: execution.environment.iter().map(pair).collect::<Result<Vec<_>, _>>()? })
    }

    /// Tries each candidate, as execvp(3) does; a text without `#!` is given to the shell.
    fn execute(&self) -> StepError {
        let environment = StringArray::of(&self.environment);
        let mut worst = Errno::NOENT;
        for path in &self.candidates {
            match execve(path, &StringArray::of(&self.argv), &environment) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::NOEXEC => worst = self.execute_by_shell(path, &environment),
                Errno::ACCESS => worst = Errno::ACCESS,
                other => return StepError { step: "exec".into(), errno: other },
            }
        }
        StepError { step: "exec".into(), errno: worst }
    }

    fn execute_by_shell(&self, path: &CString, environment: &StringArray<'_>) -> Errno {
        let argv: Vec<CString> = [c"sh".to_owned(), path.clone()].into_iter().chain(self.argv.iter().skip(1).cloned()).collect();
        execve(c"/bin/sh", &StringArray::of(&argv), environment)
    }
}
