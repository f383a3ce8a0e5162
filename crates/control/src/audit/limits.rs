//! What limits hold: each is lowered by the same mechanism that a request uses, and the probe goes beyond it. Limits that end the run have a sandbox
//! of their own.

mod crossing;

use std::collections::BTreeMap;

use ringfence_evidence::RunEnd;
use ringfence_policy::{Capabilities, Glob, LimitKey, Limits};

use super::AuditError;
use super::bait::Bait;
use super::probing::{Measured, Probing};

/// The values to which limits are lowered, in the limit's unit, where the profile's own is not lower still.
const LOWERED: [(LimitKey, u64); 13] = [
    (LimitKey::Wall, 400),
    (LimitKey::Cpu, 300),
    (LimitKey::Cpus, 500),
    (LimitKey::Memory, 24 << 20),
    (LimitKey::Processes, 12),
    (LimitKey::Output, 64 << 10),
    (LimitKey::Disk, 1 << 20),
    (LimitKey::Files, 64),
    (LimitKey::OpenFiles, 32),
    (LimitKey::Artifacts, 1),
    (LimitKey::ArtifactBytes, 10),
    (LimitKey::NetworkRequests, 3),
    (LimitKey::NetworkBytes, 150),
];

/// Milliseconds for which the probe waits or computes beyond a limit of time.
const LONG: u64 = 5000;
/// The same where a share of processors is measured.
const SHORT: u64 = 1000;
/// By how much a share of processors may be exceeded in so short a time: one period of the kernel's.
const SLACK: u64 = 150;
/// The kernel's answers of a limit that is met: EAGAIN, EMFILE, ENOSPC.
const FULL: [i32; 3] = [11, 24, 28];
/// Room for the line that says what was cut of the output.
const CUT_LINE: u64 = 100;

/// What became of one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitMeasured {
    pub(crate) key: LimitKey,
    /// What the probe met when it went beyond the lowered value.
    pub(crate) met: String,
    /// The lowered value.
    pub(crate) lowered: u64,
    /// Whether it was held; `None` where that cannot be measured, and `met` says why.
    pub(crate) is_held: Option<bool>,
}

impl Probing<'_> {
    /// Measures every limit that the profile has.
    pub(crate) fn limits(&self, bait: &Bait, capabilities: &Capabilities) -> Result<Vec<LimitMeasured>, AuditError> {
        let lowered = Lowered::of(capabilities);
        let mut measured = lowered.bounding(self)?;
        measured.extend(lowered.ending(self, LimitKey::Memory, |most| format!("memory={}", most * 3))?);
        measured.extend(lowered.ending(self, LimitKey::Wall, |most| format!("wait={}", most + LONG))?);
        measured.extend(lowered.ending(self, LimitKey::Cpu, |most| format!("spin={}", most + LONG))?);
        measured.extend(lowered.share(self)?);
        measured.extend(lowered.output(self)?);
        for key in [LimitKey::Artifacts, LimitKey::ArtifactBytes] {
            measured.extend(lowered.exported(self, key, capabilities)?);
        }
        measured.extend(lowered.requests(self, &bait.names, capabilities)?);
        measured.extend(lowered.bytes(self, capabilities)?);
        measured.sort_by_key(|limit| limit.key);
        Ok(measured)
    }
}

/// The limits of the profile, lowered.
struct Lowered(BTreeMap<LimitKey, u64>);

impl Lowered {
    fn of(capabilities: &Capabilities) -> Self {
        let lowered = |(key, value): (LimitKey, u64)| capabilities.limits.get(key).map(|declared| (key, declared.min(value)));
        Self(LOWERED.into_iter().filter_map(lowered).collect())
    }

    fn get(&self, key: LimitKey) -> Option<u64> {
        self.0.get(&key).copied()
    }

    fn only(&self, keys: &[LimitKey]) -> Limits {
        let mut limits = Limits::default();
        keys.iter().filter_map(|key| Some((*key, self.get(*key)?))).for_each(|(key, value)| limits.set(key, value));
        limits
    }

    fn measured(&self, key: LimitKey, met: String, is_held: bool) -> Option<LimitMeasured> {
        self.get(key).map(|lowered| LimitMeasured { key, met, lowered, is_held: Some(is_held) })
    }

    fn unmeasured(&self, key: LimitKey, why: &str) -> Option<LimitMeasured> {
        self.get(key).map(|lowered| LimitMeasured { key, met: why.to_owned(), lowered, is_held: None })
    }

    /// Those at which the program sees an error and goes on: in one sandbox, three times as much as is allowed.
    fn bounding(&self, probing: &Probing<'_>) -> Result<Vec<LimitMeasured>, AuditError> {
        const KEYS: [LimitKey; 4] = [LimitKey::Processes, LimitKey::Disk, LimitKey::Files, LimitKey::OpenFiles];
        let attempt = |key: LimitKey, value: u64| format!("{key}={}", value * 3);
        let attempts = KEYS.into_iter().filter_map(|key| Some(attempt(key, self.get(key)?))).collect();
        let run = probing.limited(attempts, self.only(&KEYS), Vec::new())?;
        let got = |key: LimitKey| {
            let lowered = self.get(key)?;
            let tried = attempt(key, lowered);
            match run.facts.number(&tried) {
                Some(number) => self.measured(key, format!("got {}", key.show(number)), number <= lowered),
                // Not even the first of what it tried.
                None => self.measured(key, run.facts.words(&tried), run.facts.errno(&tried).is_some_and(|errno| FULL.contains(&errno))),
            }
        };
        Ok(KEYS.into_iter().filter_map(got).collect())
    }

    /// One at which the run ends; `beyond` says how the probe goes beyond a value.
    fn ending(&self, probing: &Probing<'_>, key: LimitKey, beyond: fn(u64) -> String) -> Result<Option<LimitMeasured>, AuditError> {
        let Some(attempt) = self.get(key).map(beyond) else { return Ok(None) };
        let run = probing.limited(vec![attempt.clone()], self.only(&[key]), Vec::new())?;
        let is_held = matches!(&run.report.end, RunEnd::Limit { limit } if limit == key.name());
        let met =
            if is_held { "ended the run".to_owned() } else { format!("did not end the run: {attempt} {}", run.facts.words(&attempt)) };
        Ok(self.measured(key, met, is_held))
    }

    /// Processor time of one process that does nothing else, over a time of the wall clock.
    fn share(&self, probing: &Probing<'_>) -> Result<Option<LimitMeasured>, AuditError> {
        let Some(lowered) = self.get(LimitKey::Cpus) else { return Ok(None) };
        let run = probing.limited(vec![format!("spin={SHORT}")], self.only(&[LimitKey::Cpus]), Vec::new())?;
        let used = run.report.usage.cpu_ms;
        let met = format!("{} of processor time in {}", LimitKey::Cpu.show(used), LimitKey::Wall.show(SHORT));
        Ok(self.measured(LimitKey::Cpus, met, !run.facts.0.is_empty() && used <= SHORT * lowered / 1000 + SLACK))
    }

    fn output(&self, probing: &Probing<'_>) -> Result<Option<LimitMeasured>, AuditError> {
        let Some(lowered) = self.get(LimitKey::Output) else { return Ok(None) };
        let run = probing.limited(vec![format!("output={}", lowered * 3)], self.only(&[LimitKey::Output]), Vec::new())?;
        let kept = kept(&run);
        let met = format!("{} of {} were kept", LimitKey::Output.show(kept), LimitKey::Output.show(run.report.stdout_bytes));
        Ok(self.measured(LimitKey::Output, met, run.report.stdout_bytes > lowered && kept <= lowered + CUT_LINE))
    }

    /// Two files of a line each are named for export. A total that is broken refuses all of it.
    fn exported(&self, probing: &Probing<'_>, key: LimitKey, capabilities: &Capabilities) -> Result<Option<LimitMeasured>, AuditError> {
        let names = ["first.txt", "second.txt"];
        let globs: Vec<Glob> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let attempts = names.iter().map(|name| format!("append={}/{name}", probing.home())).collect();
        let run = probing.limited(attempts, self.only(&[key]), globs.clone())?;
        if let RunEnd::Refused { rule, .. } = &run.report.end {
            let may = globs.iter().all(|glob| capabilities.exports.allows(&glob.scope()));
            return Ok(self.measured(key, format!("refused: {rule}"), !may));
        }
        let left = run.report.artifacts.len();
        Ok(self.measured(key, format!("{left} of 2 files left"), left == 0 && !run.report.refusals.is_empty()))
    }
}

/// Bytes of standard output that were kept; ours are text.
fn kept(run: &Measured) -> u64 {
    let text = run.report.stdout.as_deref().unwrap_or_default().len();
    let encoded = run.report.stdout_base64.as_deref().unwrap_or_default().len() / 4 * 3;
    (text + encoded) as u64
}
