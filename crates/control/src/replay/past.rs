//! A run as its sealed record has it, and what has to be given again to repeat it.

use std::fs;

use ringfence_evidence::{EVENTS_FILE, Event, RunEnd, STATEMENT_FILE, verify};
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, Ask, PlainNameError, TenantName};
use ringfence_store::RunId;

use super::observed::{self, Facts, Surroundings};
use super::{ReplayError, ReplayRequest};
use crate::profiles::find_profile;
use crate::request::RunRequest;
use crate::run::Runner;

/// A run that is over.
#[derive(Debug)]
pub(super) struct Past {
    run: String,
    agent: AgentId,
    profile: String,
    ask: Ask,
    command: Vec<String>,
    has_stdin: bool,
    /// The tenant whose run it was, who sees this one too.
    tenant: Option<TenantName>,
    pub(super) facts: Facts,
    pub(super) surroundings: Surroundings,
}

impl Past {
    /// Reads the record, which must hold.
    pub(super) fn read(runner: &Runner, run: &RunId) -> Result<Self, ReplayError> {
        let broken = |cause: String| ReplayError::Record { run: run.to_string(), cause };
        let folder = runner.home.runs().join(run.as_str());
        let file = |name: &str| fs::read(folder.join(name)).map_err(|e| broken(format!("{name}: {e}")));
        let verified = verify(&file(EVENTS_FILE)?, &file(STATEMENT_FILE)?, &runner.key.public()).map_err(|e| broken(e.to_string()))?;
        let Some(Event::RunRequested { agent, tenant, profile, ask, commands, .. }) = verified.lines.first().map(|line| &line.event) else {
            return Err(broken("it does not begin with a request".into()));
        };
        if let RunEnd::Refused { rule, .. } = &verified.statement.predicate.end {
            return Err(ReplayError::NotRun { run: run.to_string(), cause: format!("it was refused: {rule}") });
        }
        if ask.state.is_some() || ask.from_session {
            let cause = "it began with files of an earlier run, which are not kept as they were then".into();
            return Err(ReplayError::NotRun { run: run.to_string(), cause });
        }
        let has_stdin = verified.lines.iter().any(|line| matches!(line.event, Event::CommandStarting { has_stdin: true, .. }));
        Ok(Self {
            run: run.to_string(),
            agent: agent.parse().map_err(|e: PlainNameError| broken(e.to_string()))?,
            profile: profile.clone(),
            ask: ask.as_ref().clone(),
            command: commands.first().cloned().unwrap_or_default(),
            has_stdin,
            tenant: tenant.as_deref().map(str::parse).transpose().map_err(|e: PlainNameError| broken(e.to_string()))?,
            facts: observed::facts(&verified.lines),
            surroundings: observed::surroundings(&verified.lines),
        })
    }

    /// The request once more. What a record does not hold must be given, under the names that it had.
    pub(super) fn request(&self, runner: &Runner, given: &ReplayRequest) -> Result<RunRequest, ReplayError> {
        self.check_given(given)?;
        let profile = match &given.profile {
            Some(profile) => profile.clone(),
            None => find_profile(&runner.home, &self.profile)
                .map_err(|_| self.missing(format!("profile `{}`", self.profile), "give its file: --profile FILE"))?,
        };
        Ok(RunRequest {
            profile,
            agent: self.agent.clone(),
            inputs: given.inputs.clone(),
            project: given.project.clone(),
            reveal: self.ask.reveal.clone(),
            environment: given.environment.clone(),
            without_network: self.ask.without_network,
            destinations: self.ask.destinations.clone(),
            limits: self.ask.limits.clone(),
            exports: self.ask.exports.clone(),
            tier: self.ask.tier,
            storage: self.ask.storage,
            state: None,
            from: None,
            sensitivity: self.ask.sensitivity,
            command: self.command.iter().map(|word| unescaped(word)).collect(),
            has_stdin: self.has_stdin,
            stdin: None,
            tenant: self.tenant.clone(),
            handed_over: None,
            known_secrets: given.known_secrets.clone(),
            homes: given.homes.clone(),
        })
    }

    fn check_given(&self, given: &ReplayRequest) -> Result<(), ReplayError> {
        if self.command.iter().any(|word| word.contains("***")) {
            let cause = "a secret was masked in its command, so that it is not known any more".to_owned();
            return Err(ReplayError::NotRun { run: self.run.clone(), cause });
        }
        if let Some(name) = self.ask.inputs.iter().find(|name| !given.inputs.iter().any(|input| input.name == **name)) {
            return Err(self.missing(format!("input `{name}`"), &format!("give it again: --input PATH={name}")));
        }
        if self.ask.project && given.project.is_none() {
            return Err(self.missing("a project".into(), "give it again, as it was then: --project DIR"));
        }
        match self.ask.environment.iter().find(|name| !given.environment.iter().any(|(given, _)| given == *name)) {
            Some(name) => Err(self.missing(format!("variable `{}`", name.as_str()), "give it again: --env NAME=VALUE")),
            None => Ok(()),
        }
    }

    fn missing(&self, what: String, hint: &str) -> ReplayError {
        ReplayError::Missing { run: self.run.clone(), what, hint: hint.to_owned() }
    }

    /// The bytes behind a fact, where they were kept: artifacts are, what was printed is not.
    pub(super) fn content(&self, runner: &Runner, what: &str) -> Vec<u8> {
        observed::artifact(runner, self.facts.get(what))
    }
}

/// A word of a command as it was, in which a record has `%XX` for `%` and for what is not UTF-8.
fn unescaped(word: &str) -> OsText {
    let bytes = word.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = bytes
            .get(at + 1..at + 3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|text| u8::from_str_radix(text, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(code)) => {
                out.push(code);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    OsText::from(out.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_it_was() {
        for word in [&b"plain"[..], b"100%", b"%41", b"a\xff\nb", b"", b"%"] {
            let text = OsText::from(word);
            assert_eq!(unescaped(&text.escaped()).as_bytes(), word, "{}", text.escaped());
        }
    }
}
