//! Parses the arguments of `run` into a request. Every message about a bad argument comes from here.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_control::{InputRequest, RunRequest, Secret, find_profile, names_a_secret};
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, Destination, EnvName, Glob, Limits, Sensitivity, StateName, Storage, Tier, WorkspacePath};
use ringfence_store::Home;

use super::RunArguments;
use crate::cli::Context;
use crate::cli::out::Failure;

/// The most that one argument or variable may hold, as the kernel has it (MAX_ARG_STRLEN).
const LONGEST: usize = 128 << 10;

/// What the options say, wherever it is to run.
pub(super) struct Options {
    pub(super) agent: Option<AgentId>,
    pub(super) inputs: Vec<InputRequest>,
    pub(super) reveal: Vec<WorkspacePath>,
    pub(super) environment: Vec<(EnvName, OsText)>,
    pub(super) destinations: Vec<Destination>,
    pub(super) limits: Limits,
    pub(super) exports: Vec<Glob>,
    pub(super) tier: Option<Tier>,
    pub(super) storage: Option<Storage>,
    pub(super) state: Option<StateName>,
    pub(super) sensitivity: Option<Sensitivity>,
    pub(super) command: Vec<OsText>,
}

/// A request of this host.
pub(super) fn build(context: &Context, home: &Home, arguments: &RunArguments) -> Result<RunRequest, Failure> {
    let profile = find_profile(home, &arguments.profile).map_err(|e| Failure::hinted(&e, e.hint()))?;
    let options = Options::parse(arguments)?;
    Ok(RunRequest {
        profile,
        agent: options.agent.unwrap_or_else(AgentId::local),
        inputs: options.inputs,
        project: arguments.project.clone(),
        reveal: options.reveal,
        known_secrets: known_secrets(context, &options.environment),
        environment: options.environment,
        without_network: false,
        destinations: options.destinations,
        limits: options.limits,
        exports: options.exports,
        tier: options.tier,
        storage: options.storage,
        state: options.state,
        from: None,
        sensitivity: options.sensitivity,
        command: options.command,
        has_stdin: arguments.stdin,
        stdin: None,
        tenant: None,
        handed_over: None,
        homes: if arguments.input.is_empty() && arguments.project.is_none() { Vec::new() } else { context.config.homes() },
    })
}

impl Options {
    /// Reads every option that says what is asked for.
    pub(super) fn parse(arguments: &RunArguments) -> Result<Self, Failure> {
        Ok(Self {
            agent: arguments
                .agent
                .as_deref()
                .map(|id| id.parse().map_err(|e| bad("--agent", &e, "see `ringfence agent ls`")))
                .transpose()?,
            inputs: arguments.input.iter().map(|text| input(text)).collect::<Result<_, _>>()?,
            reveal: parse_all("--reveal", &arguments.reveal, "name a path relative to the project")?,
            environment: environment(&arguments.env)?,
            destinations: parse_all("--allow", &arguments.allow, "such as --allow api.example.com:443")?,
            limits: limits(&arguments.limit)?,
            exports: exports(arguments)?,
            tier: arguments.tier.as_deref().map(|t| t.parse().map_err(|e| bad("--tier", &e, "such as --tier process"))).transpose()?,
            storage: storage(arguments.storage.as_deref())?,
            state: arguments
                .state
                .as_deref()
                .map(|name| name.parse().map_err(|e| bad("--state", &e, "such as --state notes")))
                .transpose()?,
            sensitivity: sensitivity(arguments.sensitivity.as_deref())?,
            command: command(arguments)?,
        })
    }
}

/// Limits, each named once.
pub(in crate::cli) fn limits(texts: &[String]) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    for text in texts {
        let before = limits.iter().count();
        limits.parse_and_set(text).map_err(|e| bad("--limit", &e, "such as --limit memory=256MiB or --limit wall=30s"))?;
        if limits.iter().count() == before {
            return Err(bad("--limit", &format!("`{text}` sets a limit that was set before"), "name each limit once"));
        }
    }
    Ok(limits)
}

/// Variables, each named once.
pub(in crate::cli) fn environment(texts: &[OsString]) -> Result<Vec<(EnvName, OsText)>, Failure> {
    let environment: Vec<(EnvName, OsText)> = texts.iter().map(|text| variable(text)).collect::<Result<_, _>>()?;
    if let Some((name, _)) =
        environment.iter().enumerate().find(|(at, (name, _))| environment[..*at].iter().any(|(n, _)| n == name)).map(|(_, e)| e)
    {
        return Err(bad("--env", &format!("`{name}` is set twice"), "name each variable once"));
    }
    Ok(environment)
}

pub(super) fn bad(option: &str, why: &dyn Display, hint: &str) -> Failure {
    Failure::new(format!("{option}: {why}"), hint)
}

fn sensitivity(text: Option<&str>) -> Result<Option<Sensitivity>, Failure> {
    text.map(|text| text.parse().map_err(|e| bad("--sensitivity", &e, "such as --sensitivity confidential"))).transpose()
}

fn storage(text: Option<&str>) -> Result<Option<Storage>, Failure> {
    text.map(|text| text.parse().map_err(|e| bad("--storage", &e, "such as --storage disk"))).transpose()
}

fn parse_all<T: std::str::FromStr>(option: &str, texts: &[String], hint: &str) -> Result<Vec<T>, Failure>
where
    T::Err: Display,
{
    texts.iter().map(|text| text.parse().map_err(|e| bad(option, &e, hint))).collect()
}

/// `PATH` or `PATH=NAME`; a path that exists as it is written is a path.
pub(in crate::cli) fn input(text: &OsStr) -> Result<InputRequest, Failure> {
    let bytes = text.as_bytes();
    let (path, name) = match bytes.iter().rposition(|b| *b == b'=') {
        Some(at) if !Path::new(text).exists() => (&bytes[..at], Some(&bytes[at + 1..])),
        Some(_) | None => (bytes, None),
    };
    let path = PathBuf::from(OsStr::from_bytes(path));
    let own = || {
        path.canonicalize()
            .ok()
            .and_then(|p| p.file_name().map(|n| n.as_bytes().to_vec()))
            .or_else(|| path.file_name().map(|n| n.as_bytes().to_vec()))
    };
    let name = name.map(<[u8]>::to_vec).or_else(own).unwrap_or_default();
    let name = String::from_utf8(name).map_err(|_| bad("--input", &"the name is not UTF-8", "give it a name: --input PATH=NAME"))?;
    let is_plain =
        !name.is_empty() && name != "." && name != ".." && name.len() <= 255 && !name.contains('/') && !name.chars().any(char::is_control);
    match is_plain {
        true => Ok(InputRequest { path, name }),
        false => Err(bad(
            "--input",
            &format!("`{}` cannot be the name of an input", name.escape_debug()),
            "give it a plain name: --input PATH=NAME",
        )),
    }
}

pub(in crate::cli) fn variable(text: &OsStr) -> Result<(EnvName, OsText), Failure> {
    let hint = "such as --env MODE=fast";
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=').ok_or_else(|| bad("--env", &format!("`{}` has no `=`", OsText::from(bytes)), hint))?;
    let name = String::from_utf8_lossy(&bytes[..at]).parse().map_err(|e| bad("--env", &e, hint))?;
    match bytes.len() < LONGEST {
        true => Ok((name, OsText::from(&bytes[at + 1..]))),
        false => Err(bad("--env", &format!("`{name}` is longer than {LONGEST} bytes"), "pass long data as an input")),
    }
}

/// The caller's, and those that are given to the run by a name that says so.
pub(in crate::cli) fn known_secrets(context: &Context, given: &[(EnvName, OsText)]) -> Vec<Secret> {
    let given = given
        .iter()
        .filter(|(name, _)| names_a_secret(name.as_str()))
        .filter_map(|(_, value)| value.as_os_str().to_str().map(|value| Secret::new(value.to_owned())));
    context.config.known_secrets.iter().cloned().chain(given).collect()
}

fn exports(arguments: &RunArguments) -> Result<Vec<Glob>, Failure> {
    let hint = "such as --export 'report.*'";
    let text = |glob: &OsStr| {
        glob.to_str().map(str::to_owned).ok_or_else(|| bad("--export", &"the glob is not UTF-8; `?` and `*` match any byte", hint))
    };
    arguments.export.iter().map(|glob| text(glob)?.parse().map_err(|e| bad("--export", &e, hint))).collect()
}

fn command(arguments: &RunArguments) -> Result<Vec<OsText>, Failure> {
    if let Some(long) = arguments.command.iter().find(|a| a.len() >= LONGEST) {
        return Err(bad(
            "COMMAND",
            &format!("an argument of {} bytes is longer than {LONGEST}", long.len()),
            "pass long data as an input or by --stdin",
        ));
    }
    if arguments.command.first().is_some_and(|name| name.is_empty()) {
        return Err(bad("COMMAND", &"the program's name is empty", "such as: ringfence run -- python3 script.py"));
    }
    Ok(arguments.command.iter().map(|a| OsText::from(a.as_bytes())).collect())
}
