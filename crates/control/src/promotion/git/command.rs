//! Runs git, the one program that is started for a promotion: with nothing of anybody's settings, no hooks, no prompts, and an end.
//!
//! It is given plumbing only: no patch, no attribute and no filter of a stranger is ever its business. Hooks of the target run on the target's
//! side, as its owner wishes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringfence_isolation::OsText;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::promotion::error::PromotionError;

/// No exchange with a repository takes longer; what does is ended and asked about.
const LONGEST: Duration = Duration::from_secs(300);
/// To be told where a branch is takes no longer.
const LONGEST_QUESTION: Duration = Duration::from_secs(30);

/// Variables that say how a repository is reached, and nothing else.
const PASSED: &[&str] = &["PATH", "HOME", "USER", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];

/// What is set for every command: whatever git would otherwise find out or do by itself.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.quotePath=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "credential.helper=",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "protocol.https.allow=always",
    "protocol.http.allow=always",
    "protocol.ssh.allow=always",
    "protocol.git.allow=always",
];

/// A bare repository of our own, and git to work on it.
#[derive(Debug, Clone)]
pub(super) struct Git {
    folder: PathBuf,
    environment: BTreeMap<String, String>,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Ended {
    /// What git said, for a person: its last lines, in which nothing steers a terminal.
    pub(super) fn said(&self) -> String {
        const LINES: usize = 8;
        let text = String::from_utf8_lossy(&self.stderr);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !["", "remote:"].contains(line)).collect();
        let last = lines.len().saturating_sub(LINES);
        OsText::from(lines[last..].join("; ").as_str()).to_string()
    }
}

impl Git {
    /// Git in `folder`, reaching repositories as `environment` says.
    pub(super) fn at(folder: PathBuf, environment: &BTreeMap<String, String>) -> Self {
        let passed = environment.iter().filter(|(name, _)| PASSED.contains(&name.as_str()));
        Self { folder, environment: passed.map(|(name, value)| (name.clone(), value.clone())).collect() }
    }

    /// The repository's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command to its end; that it failed is for the caller to see.
    pub(super) fn try_run(&self, arguments: &[&str], stdin: &[u8], more: &[(&str, &str)]) -> Result<Ended, PromotionError> {
        self.run_for(LONGEST, arguments, stdin, more)
    }

    /// The same for a short question to a repository.
    pub(super) fn ask(&self, arguments: &[&str]) -> Result<Ended, PromotionError> {
        self.run_for(LONGEST_QUESTION, arguments, b"", &[])
    }

    fn run_for(&self, longest: Duration, arguments: &[&str], stdin: &[u8], more: &[(&str, &str)]) -> Result<Ended, PromotionError> {
        let act = arguments.first().copied().unwrap_or("git");
        let child = self.command(arguments, more).spawn().map_err(|source| PromotionError::NoGit { source })?;
        attend(child, stdin, longest).map_err(|source| PromotionError::Git { act: act.to_owned(), cause: source.to_string() })
    }

    /// Runs a command that has to succeed, and answers with what it printed.
    pub(super) fn run(&self, arguments: &[&str], stdin: &[u8], more: &[(&str, &str)]) -> Result<Vec<u8>, PromotionError> {
        let ended = self.try_run(arguments, stdin, more)?;
        match ended.status.success() {
            true => Ok(ended.stdout),
            false => Err(PromotionError::Git {
                act: arguments.first().copied().unwrap_or("git").to_owned(),
                cause: format!("{}: {}", ended.status, ended.said()),
            }),
        }
    }

    /// The same, whose answer is one word, such as an id.
    pub(super) fn word(&self, arguments: &[&str], stdin: &[u8], more: &[(&str, &str)]) -> Result<String, PromotionError> {
        self.run(arguments, stdin, more).map(|out| String::from_utf8_lossy(&out).trim().to_owned())
    }

    /// A command that goes on while somebody speaks with it.
    pub(super) fn open(&self, arguments: &[&str]) -> Result<Child, PromotionError> {
        self.command(arguments, &[]).stderr(Stdio::null()).spawn().map_err(|source| PromotionError::NoGit { source })
    }

    #[expect(clippy::disallowed_methods, reason = "git speaks with repositories; this is the one place that starts it")]
    fn command(&self, arguments: &[&str], more: &[(&str, &str)]) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        // ssh asks on the terminal itself, whatever git is told.
        command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=20").envs(&self.environment);
        command.envs([
            ("GIT_DIR", self.folder.as_os_str()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("GIT_ATTR_NOSYSTEM", "1".as_ref()),
            ("GIT_NO_REPLACE_OBJECTS", "1".as_ref()),
            ("GIT_LITERAL_PATHSPECS", "1".as_ref()),
            ("GIT_TERMINAL_PROMPT", "0".as_ref()),
            ("GIT_ASKPASS", "/bin/false".as_ref()),
            ("SSH_ASKPASS", "/bin/false".as_ref()),
            ("LC_ALL", "C".as_ref()),
        ]);
        command.envs(more.iter().copied());
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.args(arguments).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Feeds a child, drains it, and waits for it no longer than it may take.
fn attend(mut child: Child, stdin: &[u8], longest: Duration) -> std::io::Result<Ended> {
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let feed = scope.spawn(move || input.map_or(Ok(()), |mut input| input.write_all(stdin)));
        let drain = |stream: Option<Box<dyn Read + Send>>| {
            scope.spawn(move || {
                let mut bytes = Vec::new();
                stream.map_or(Ok(0), |mut stream| stream.read_to_end(&mut bytes)).map(|_| bytes)
            })
        };
        let stdout = drain(output.map(|stream| Box::new(stream) as _));
        let stderr = drain(errors.map(|stream| Box::new(stream) as _));
        let status = wait(&mut child, longest);
        // A child that ends early does not read what is left for it.
        drop(feed.join());
        let read = |bytes: thread::Result<std::io::Result<Vec<u8>>>| bytes.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (stdout, stderr) = (read(stdout.join()), read(stderr.join()));
        Ok(Ended { status: status?, stdout: stdout?, stderr: stderr? })
    })
}

fn wait(child: &mut Child, longest: Duration) -> std::io::Result<ExitStatus> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begun.elapsed() > longest {
            end(child)?;
            return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("took longer than {} s", longest.as_secs())));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Ends the whole group: git starts helpers, which hold on to its pipes.
fn end(child: &mut Child) -> std::io::Result<()> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process_group(group, Signal::KILL)?;
    }
    child.wait().map(drop)
}
