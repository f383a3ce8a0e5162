//! Writes down what happens in a run, in the words of the evidence.

use ringfence_evidence::{ArtifactRecord, Digest, Event, InputRecord, RunEnd, StreamRecord, UsageRecord};
use ringfence_isolation::{Captured, Command, CommandOutcome, Export, OsText, Plan, Remains, Usage};
use ringfence_policy::{Ask, Grant, Refusal};
use ringfence_store::{Journal, JournalWriter, StoreError};

use crate::ending;
use crate::images::Shown;
use crate::packages::LockFile;
use crate::registry::Agent;
use crate::report::LockReport;
use crate::request::{RunRequest, Secret};
use crate::settings::Settings;

/// A secret shorter than this would mask half of all arguments.
const SHORTEST_SECRET: usize = 6;

/// The request as policy sees it.
pub(crate) fn ask_of(request: &RunRequest) -> Ask {
    Ask {
        inputs: request.inputs.iter().map(|i| i.name.clone()).collect(),
        project: request.project.is_some(),
        reveal: request.reveal.clone(),
        environment: request.environment.iter().map(|(name, _)| name.clone()).collect(),
        destinations: request.destinations.clone(),
        limits: request.limits.clone(),
        exports: request.exports.clone(),
        tier: request.tier,
        storage: request.storage,
        sensitivity: request.sensitivity,
        state: request.state.clone(),
        from_session: request.from.is_some(),
        without_network: request.without_network,
    }
}

pub(crate) fn requested(journal: &mut Journal, request: &RunRequest, agent: &Agent, settings: &Settings) -> Result<(), StoreError> {
    let run = journal.run().to_string();
    journal.append(Event::RunRequested {
        run,
        version: crate::VERSION.into(),
        agent: agent.id.to_string(),
        agent_version: Some(agent.version),
        owner: agent.owner.to_string(),
        tenant: request.tenant.as_ref().map(ToString::to_string),
        profile: request.profile.profile.name.to_string(),
        profile_digest: request.profile.digest(),
        ceiling_digest: settings.digest,
        ask: Box::new(ask_of(request)),
        // A session's commands come later.
        commands: Some(masked(&request.command, &request.known_secrets)).filter(|argv| !argv.is_empty()).into_iter().collect(),
    })
}

/// Arguments in which no known secret stands.
pub(crate) fn masked(argv: &[OsText], secrets: &[Secret]) -> Vec<String> {
    // Longest first: a secret may begin with another one.
    let mut secrets: Vec<&[u8]> =
        secrets.iter().map(|secret| secret.expose().as_bytes()).filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mask = |argument: &OsText| {
        let masked = secrets.iter().fold(argument.as_bytes().to_vec(), |bytes, secret| replace_all(&bytes, secret));
        OsText::from(masked.as_slice()).escaped()
    };
    argv.iter().map(mask).collect()
}

fn replace_all(bytes: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut masked = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
        masked.extend_from_slice(&rest[..at]);
        masked.extend_from_slice(b"***");
        rest = &rest[at + secret.len()..];
    }
    masked.extend_from_slice(rest);
    masked
}

pub(crate) fn granted(journal: &mut Journal, grant: &Grant) -> Result<(), StoreError> {
    journal.append(Event::RunGranted { grant: Box::new(grant.clone()) })
}

pub(crate) fn refused(journal: &mut Journal, refusal: &Refusal) -> Result<RunEnd, StoreError> {
    let Refusal { rule, layer, hint } = refusal.clone();
    journal.append(Event::RunRefused { rule, layer, hint })?;
    Ok(ending::refused(refusal))
}

pub(crate) fn inputs(journal: &mut Journal, inputs: &[InputRecord]) -> Result<(), StoreError> {
    inputs.iter().try_for_each(|input| journal.append(Event::InputAdded { input: input.clone() }))
}

pub(crate) fn lock(journal: &mut Journal, lock: &LockFile) -> Result<LockReport, StoreError> {
    let (pins, problem) = match &lock.pins {
        Ok(pins) => (*pins as u64, None),
        Err(problem) => (0, Some(problem.clone())),
    };
    journal.append(Event::LockRead { file: lock.name.clone(), sha256: lock.sha256, pins, problem: problem.clone() })?;
    Ok(LockReport { file: lock.name.clone(), pins, problem })
}

pub(crate) fn creating(
    journal: &mut Journal,
    host: &ringfence_isolation::Host,
    grant: &Grant,
    plan: &Plan,
    shown: &Shown,
) -> Result<(), StoreError> {
    journal.append(Event::SandboxCreating {
        tier: grant.capabilities.tier.to_string(),
        grades: crate::report::grades(host, grant),
        kernel: host.kernel.clone(),
        landlock: host.landlock,
        image: shown.name.as_ref().map(ToString::to_string),
        image_digest: shown.image.digest.parse().unwrap_or_else(|_| Digest::zero()),
        plan_digest: Digest::of(ringfence_evidence::canonical(plan).unwrap_or_default().as_bytes()),
    })
}

pub(crate) fn starting(journal: &mut Journal, request: &RunRequest, command: &Command, folder: &str) -> Result<(), StoreError> {
    command_starting(&journal.writer(), 0, command, folder, request.has_stdin, &request.known_secrets)
}

pub(crate) fn command_starting(
    journal: &JournalWriter,
    number: u32,
    command: &Command,
    folder: &str,
    has_stdin: bool,
    secrets: &[Secret],
) -> Result<(), StoreError> {
    journal.append(Event::CommandStarting {
        command: number,
        argv: masked(&command.argv, secrets),
        folder: command.folder.as_ref().map_or_else(|| folder.to_owned(), OsText::escaped),
        environment: command.environment.iter().map(|(name, _)| name.clone()).collect(),
        has_stdin,
    })
}

pub(crate) fn ended(journal: &mut Journal, outcome: &CommandOutcome) -> Result<(), StoreError> {
    command_ended(&journal.writer(), 0, outcome)
}

pub(crate) fn command_ended(journal: &JournalWriter, number: u32, outcome: &CommandOutcome) -> Result<(), StoreError> {
    journal.append(Event::CommandEnded {
        command: number,
        end: ending::of(&outcome.end),
        stdout: stream(&outcome.stdout),
        stderr: stream(&outcome.stderr),
    })
}

pub(crate) fn stream(captured: &Captured) -> StreamRecord {
    StreamRecord { bytes: captured.bytes, sha256: Digest::from_bytes(captured.sha256), is_truncated: captured.cut > 0 }
}

pub(crate) fn sandbox_ended(journal: &mut Journal, remains: &Remains, limits_reached: &[String]) -> Result<(), StoreError> {
    journal.append(Event::SandboxEnded { usage: usage(&remains.usage), limits_reached: limits_reached.to_vec() })
}

pub(crate) fn usage(usage: &Usage) -> UsageRecord {
    let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    UsageRecord {
        wall_ms: millis(usage.wall),
        cpu_ms: millis(usage.cpu),
        memory_peak_bytes: usage.memory_peak_bytes,
        processes_peak: usage.processes_peak,
    }
}

pub(crate) fn exported(journal: &mut Journal, export: &Export) -> Result<(), StoreError> {
    for artifact in &export.artifacts {
        let sha256 = artifact.stored.sha256.parse().unwrap_or_else(|_| Digest::zero());
        let record =
            ArtifactRecord { path: artifact.path.escaped(), bytes: artifact.stored.bytes, sha256, is_executable: artifact.is_executable };
        journal.append(Event::ArtifactExported { artifact: record })?;
    }
    for refusal in &export.refusals {
        journal.append(Event::ArtifactRefused { path: refusal.path.escaped(), reason: refusal.reason.clone() })?;
    }
    Ok(())
}
