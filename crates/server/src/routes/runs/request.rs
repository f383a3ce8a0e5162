//! What a client asks for as a run: every field of the command line, but for files of the host, which no client can name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_control::{ProfileText, RunRequest, Secret, find_profile, names_a_secret};
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, EnvName, Glob, Limits, ProfileName};
use ringfence_store::Caller;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::asked::Wanted;
use crate::bounded::{Few, Table, Text};
use crate::problem::{Code, Problem};
use crate::serving::Serving;

/// The most that one argument or variable may hold, as the kernel has it (MAX_ARG_STRLEN).
const LONGEST: usize = 128 << 10;
/// The profile of a run that names none.
const USUAL_PROFILE: &str = "data-analysis";

/// A run that is asked for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBody {
    /// Program and arguments.
    #[schemars(length(min = 1), extend("prefixItems" = [{"type": "string", "minLength": 1, "maxLength": 131_071, "pattern": "^[^\\u0000]+$"}]))]
    pub(crate) command: Few<Text<0, 131_071>, 1024>,
    /// Class of work: the name of a profile; `data-analysis` if not named.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9-]{0,63}$"))]
    pub(crate) profile: Option<Text<1, 64>>,
    /// The agent that the run belongs to, one of the tenant's; its first one if not named.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
    pub(crate) agent: Option<Text<1, 64>>,
    /// Variables to set.
    #[serde(default)]
    pub(crate) env: Table<Text<0, 131_071>, 256>,
    /// Limits to lower, such as `{"memory": "256MiB", "wall": "30s"}`.
    #[serde(default)]
    pub(crate) limits: Table<Text<1, 64>, 16>,
    /// Destinations to reach, such as `api.example.com:443`; they must be inside the bound.
    #[serde(default)]
    pub(crate) allow: Few<Text<1, 512>, 256>,
    /// Artifacts to collect, as globs relative to the workspace.
    #[serde(default)]
    pub(crate) exports: Few<Text<1, 4096>, 256>,
    /// At least this tier.
    #[schemars(extend("enum" = ["process", "gvisor", "microvm", null]))]
    pub(crate) tier: Option<Text<1, 16>>,
    /// Where to keep what the run writes; in memory if not named.
    #[schemars(extend("enum" = ["memory", "disk", null]))]
    pub(crate) storage: Option<Text<1, 16>>,
    /// How sensitive the work is, at least.
    #[schemars(extend("enum" = ["public", "internal", "confidential", "restricted", null]))]
    pub(crate) sensitivity: Option<Text<1, 16>>,
    /// State by name: begins with what the last run left under it, and leaves its own.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
    pub(crate) state: Option<Text<1, 64>>,
    /// Standard input, as text.
    pub(crate) stdin: Option<Text<0, 8_388_608>>,
    /// Standard input, in base 64.
    #[schemars(extend("contentEncoding" = "base64"))]
    pub(crate) stdin_base64: Option<Text<0, 8_388_608>>,
    /// Files to see, read-only, at `/inputs/NAME`.
    #[serde(default)]
    pub(crate) inputs: Few<InputBody, 64>,
}

impl Wanted for RunBody {
    const MOST_BYTES: usize = 8 << 20;
}

/// A file to see: its name, and one of `content`, `content_base64` and `artifact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBody {
    /// Its name inside.
    #[schemars(regex(pattern = "^[^/\\u0000]{1,255}$"))]
    pub(super) name: Text<1, 255>,
    /// Its content, as text.
    pub(super) content: Option<Text<0, 8_388_608>>,
    /// Its content, in base 64.
    #[schemars(extend("contentEncoding" = "base64"))]
    pub(super) content_base64: Option<Text<0, 8_388_608>>,
    /// The digest of an artifact that one of the tenant's runs made.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub(super) artifact: Option<Text<71, 71>>,
}

impl RunBody {
    /// The request as the command line would have made it, without inputs. Only for threads that may wait.
    pub(super) fn request(&self, serving: &Serving, caller: &Caller) -> Result<RunRequest, Problem> {
        self.ask(serving, caller, words("command", &self.command.0)?)
    }

    /// The same with another command, or with none. Only for threads that may wait.
    pub(crate) fn ask(&self, serving: &Serving, caller: &Caller, command: Vec<OsText>) -> Result<RunRequest, Problem> {
        let environment = environment(&self.env)?;
        let given = environment.iter().filter(|(name, _)| names_a_secret(name.as_str()));
        let given = given.filter_map(|(_, value)| value.as_os_str().to_str().map(|value| Secret::new(value.to_owned())));
        let known_secrets = serving.known_secrets.iter().cloned().chain(given.collect::<Vec<_>>()).collect();
        let profile = profile(serving, self.profile.as_ref().map_or(USUAL_PROFILE, |name| &name.0))?;
        Ok(RunRequest {
            environment,
            without_network: false,
            destinations: all("allow", &self.allow.0, "such as `api.example.com:443`")?,
            limits: self.limits()?,
            exports: self.exports(serving, caller)?,
            tier: one("tier", self.tier.as_ref())?,
            storage: one("storage", self.storage.as_ref())?,
            sensitivity: one("sensitivity", self.sensitivity.as_ref())?,
            state: crate::routes::sessions::kept_name(self.state.as_ref())?,
            has_stdin: self.stdin.is_some() || self.stdin_base64.is_some(),
            tenant: Some(caller.tenant.parse().map_err(|error| serving.failed(&error))?),
            known_secrets,
            homes: serving.homes.clone(),
            ..RunRequest::bare(profile, agent(self.agent.as_ref().map(|agent| agent.0.as_str()), caller)?, command)
        })
    }

    /// What is to leave. Whoever asks for what cannot be in a workspace is named to the operator: it may be somebody who tries what can be had of the host.
    fn exports(&self, serving: &Serving, caller: &Caller) -> Result<Vec<Glob>, Problem> {
        all("exports", &self.exports.0, "such as `report.*`").inspect_err(|problem: &Problem| {
            serving.log(&format!("refused to tenant `{}`, key {}: {}", caller.tenant, caller.key, problem.in_words()));
        })
    }

    fn limits(&self) -> Result<Limits, Problem> {
        let mut limits = Limits::default();
        for (key, value) in &self.limits.0 {
            let set = limits.parse_and_set(&format!("{key}={}", value.0));
            set.map_err(|error| Problem::value("limits", error, "such as {\"memory\": \"256MiB\", \"wall\": \"30s\"}"))?;
        }
        Ok(limits)
    }

    /// The bytes of standard input.
    pub(super) fn stdin(&self) -> Result<Option<Vec<u8>>, Problem> {
        bytes("stdin", self.stdin.as_ref(), self.stdin_base64.as_ref())
    }
}

/// Program and arguments.
pub(crate) fn words(field: &str, words: &[Text<0, 131_071>]) -> Result<Vec<OsText>, Problem> {
    if words.first().is_none_or(|program| program.0.is_empty()) {
        return Err(Problem::value(field, "the program's name is empty", "such as [\"python3\", \"-c\", \"print(1)\"]"));
    }
    if words.iter().any(|word| word.0.len() >= LONGEST) {
        return Err(Problem::value(field, format!("an argument is longer than {LONGEST} bytes"), "pass long data as an input or as stdin"));
    }
    words.iter().map(|word| plain(field, &word.0)).collect()
}

/// Variables by their names and values.
pub(crate) fn environment(variables: &Table<Text<0, 131_071>, 256>) -> Result<Vec<(EnvName, OsText)>, Problem> {
    let variable = |(name, value): &(String, Text<0, 131_071>)| {
        let name: EnvName = name.parse().map_err(|error| Problem::value("env", error, "such as {\"MODE\": \"fast\"}"))?;
        match value.0.len() < LONGEST {
            true => Ok((name, plain("env", &value.0)?)),
            false => Err(Problem::value("env", format!("a value is longer than {LONGEST} bytes"), "pass long data as an input")),
        }
    };
    variables.0.iter().map(variable).collect()
}

/// Text or base 64, not both.
pub(crate) fn bytes<const A: usize, const B: usize>(
    field: &str,
    text: Option<&Text<A, B>>,
    base64: Option<&Text<A, B>>,
) -> Result<Option<Vec<u8>>, Problem> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Problem::value(field, "it is given twice, as text and in base 64", "give it once")),
        (Some(text), None) => Ok(Some(text.0.clone().into_bytes())),
        (None, Some(text)) => {
            STANDARD.decode(&text.0).map(Some).map_err(|error| Problem::value(field, error, "base 64 with padding, in one line"))
        }
        (None, None) => Ok(None),
    }
}

/// A word for the kernel, in which a zero byte has no place.
fn plain(field: &str, text: &str) -> Result<OsText, Problem> {
    match text.contains('\0') {
        true => Err(Problem::value(field, "a zero byte ends a word for the kernel", "pass such data as an input or as stdin")),
        false => Ok(OsText::from(text)),
    }
}

fn one<T: std::str::FromStr<Err: std::fmt::Display>>(field: &str, text: Option<&Text<1, 16>>) -> Result<Option<T>, Problem> {
    let parse = |text: &Text<1, 16>| text.0.parse().map_err(|error| Problem::value(field, error, "name one of those"));
    text.map(parse).transpose()
}

fn all<T: std::str::FromStr<Err: std::fmt::Display>, const MOST: usize>(
    field: &str,
    texts: &[Text<1, MOST>],
    hint: &str,
) -> Result<Vec<T>, Problem> {
    texts.iter().map(|text| text.0.parse().map_err(|error| Problem::value(field, error, hint))).collect()
}

/// A profile by its name, never by a path. Only for threads that may wait.
pub(crate) fn profile(serving: &Serving, name: &str) -> Result<ProfileText, Problem> {
    let name: ProfileName = name.parse().map_err(|error| Problem::value("profile", error, "see GET /v1/profiles"))?;
    match find_profile(serving.home(), name.as_str()) {
        Err(ringfence_control::RunError::NoProfile { name, known }) => {
            Err(Problem::value("profile", format!("there is no profile `{name}`; there are {known}"), "see GET /v1/profiles"))
        }
        found => found.map_err(|error| serving.failed(&error)),
    }
}

/// One of the tenant's agents.
fn agent(name: Option<&str>, caller: &Caller) -> Result<AgentId, Problem> {
    let not_allowed = |name: &str| {
        let known = caller.agents.join(", ");
        Problem::new(Code::AgentNotAllowed, format!("this tenant cannot use agent `{name}`"), format!("name one of its agents: {known}"))
    };
    let name = match name {
        Some(name) => name,
        None => caller.agents.first().map(String::as_str).ok_or_else(|| not_allowed(""))?,
    };
    let agent: AgentId = name.parse().map_err(|error| Problem::value("agent", error, "see GET /v1/agents"))?;
    match caller.agents.iter().any(|allowed| allowed == name) {
        true => Ok(agent),
        false => Err(not_allowed(name)),
    }
}
