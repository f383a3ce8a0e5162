//! Limits: what they are called, their units, and how they narrow each other (the least wins; absent means unlimited).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds, written `250ms`, `30s`, `5min`, `1h`.
    Millis,
    /// Bytes, written `512B`, `64KiB`, `256MiB`, `1GiB` (powers of 1024) or `KB`, `MB`, `GB` (powers of 1000).
    Bytes,
    /// Things, written as a whole number.
    Count,
    /// Thousandths of a processor, written `0.5` or `2`.
    MilliCpus,
}

/// The limits of a run, in the order in which they are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKey {
    /// Wall-clock time from the start of the sandbox; ends the run.
    Wall,
    /// Processor time of the whole tree; ends the run.
    Cpu,
    /// Processors' worth of time at once.
    Cpus,
    /// Memory of the whole tree, memory-backed files included; ends the run.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Bytes kept of stdout and stderr together.
    Output,
    /// Bytes of the file system that holds the workspace, `/tmp` and `/dev/shm`.
    Disk,
    /// Files and folders of the same file system.
    Files,
    /// Open descriptors of one process.
    OpenFiles,
    /// Number of artifacts.
    Artifacts,
    /// Bytes of all artifacts together.
    ArtifactBytes,
    /// Bytes over the network, both ways.
    NetworkBytes,
    /// Connections and requests over the network, those that were refused among them.
    NetworkRequests,
}

impl LimitKey {
    /// Every limit there is.
    pub const ALL: [Self; 13] = [
        Self::Wall,
        Self::Cpu,
        Self::Cpus,
        Self::Memory,
        Self::Processes,
        Self::Output,
        Self::Disk,
        Self::Files,
        Self::OpenFiles,
        Self::Artifacts,
        Self::ArtifactBytes,
        Self::NetworkBytes,
        Self::NetworkRequests,
    ];

    /// The name that a person writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::Cpus => "cpus",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Output => "output",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::OpenFiles => "open-files",
            Self::Artifacts => "artifacts",
            Self::ArtifactBytes => "artifact-bytes",
            Self::NetworkBytes => "network-bytes",
            Self::NetworkRequests => "network-requests",
        }
    }

    /// The name in JSON, unit included.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Wall => "wall_ms",
            Self::Cpu => "cpu_ms",
            Self::Cpus => "cpus_milli",
            Self::Memory => "memory_bytes",
            Self::Processes => "processes",
            Self::Output => "output_bytes",
            Self::Disk => "disk_bytes",
            Self::Files => "files",
            Self::OpenFiles => "open_files",
            Self::Artifacts => "artifacts",
            Self::ArtifactBytes => "artifact_bytes",
            Self::NetworkBytes => "network_bytes",
            Self::NetworkRequests => "network_requests",
        }
    }

    /// What the limit counts.
    pub fn unit(self) -> Unit {
        match self {
            Self::Wall | Self::Cpu => Unit::Millis,
            Self::Cpus => Unit::MilliCpus,
            Self::Memory | Self::Output | Self::Disk | Self::ArtifactBytes | Self::NetworkBytes => Unit::Bytes,
            Self::Processes | Self::Files | Self::OpenFiles | Self::Artifacts | Self::NetworkRequests => Unit::Count,
        }
    }

    /// The least value under which a run can start at all.
    pub fn least(self) -> u64 {
        match self {
            Self::Wall | Self::Cpu | Self::Cpus => 10,
            Self::Memory => 4 << 20,
            Self::Processes | Self::Output => 1,
            Self::Disk => 64 << 10,
            Self::Files => 16,
            Self::OpenFiles => 8,
            Self::Artifacts | Self::ArtifactBytes | Self::NetworkBytes | Self::NetworkRequests => 0,
        }
    }

    /// Reads a value of this limit in its unit.
    pub fn parse_value(self, text: &str) -> Result<u64, LimitError> {
        let bad = |expected| LimitError::Value { key: self, text: text.to_owned(), expected };
        let value = match self.unit() {
            Unit::Millis => scaled(text, &[("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)])
                .ok_or_else(|| bad("a time with its unit, such as `250ms`, `30s`, `5min` or `1h`"))?,
            Unit::Bytes => scaled(text, BYTE_UNITS).ok_or_else(|| bad("a size with its unit, such as `64KiB`, `256MiB` or `1GiB`"))?,
            Unit::Count => scaled(text, &[("", 1)]).ok_or_else(|| bad("a whole number, such as `128`"))?,
            Unit::MilliCpus => scaled(text, &[("", 1000)]).ok_or_else(|| bad("processors, such as `1` or `0.5`"))?,
        };
        match value >= self.least() {
            true => Ok(value),
            false => Err(LimitError::Small { key: self, text: text.to_owned(), least: self.show(self.least()) }),
        }
    }

    /// Writes a value of this limit as a person would.
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            Unit::Count => value.to_string(),
            Unit::MilliCpus if value.is_multiple_of(1000) => (value / 1000).to_string(),
            Unit::MilliCpus => format!("{}", value as f64 / 1000.0),
            Unit::Millis => largest(value, &[("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)]),
            Unit::Bytes => largest(value, &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)]),
        }
    }
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads `number unit` where the unit is one of those given. The number may have a fraction of up to six digits, and underscores.
pub(crate) fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim_start());
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || fraction.len() > 6 || (number.contains('.') && (fraction.is_empty() || factor == 1)) {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let part = u128::from(parts) * u128::from(factor) / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_add(u64::try_from(part).ok()?)
}

/// The value in the largest unit that divides it.
pub(crate) fn largest(value: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor));
    let (name, factor) = fitting.or(units.last()).copied().unwrap_or(("", 1));
    format!("{} {name}", value / factor)
}

/// Why a limit was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// No limit has this name.
    #[error("there is no limit `{0}`; the limits are {list}", list = names())]
    Key(String),
    /// Not `KEY=VALUE`.
    #[error("`{0}` is not of the form KEY=VALUE, such as `memory=256MiB`")]
    Form(String),
    /// The value does not read as one.
    #[error("limit `{key}` cannot be `{text}`; write {expected}")]
    Value {
        /// The limit.
        key: LimitKey,
        /// What was written.
        text: String,
        /// What can be written.
        expected: &'static str,
    },
    /// The value is too small for anything to run.
    #[error("limit `{key}` cannot be `{text}`; the least that can be held is {least}")]
    Small {
        /// The limit.
        key: LimitKey,
        /// What was written.
        text: String,
        /// The least value.
        least: String,
    },
}

fn names() -> String {
    LimitKey::ALL.map(LimitKey::name).join(", ")
}

impl FromStr for LimitKey {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::ALL.into_iter().find(|key| key.name() == text).ok_or_else(|| LimitError::Key(text.to_owned()))
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values for some of the limits; one that is absent is unlimited. JSON names carry the unit (`wall_ms`, `memory_bytes`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits(BTreeMap<LimitKey, u64>);

impl Limits {
    /// The value of one limit, `None` if unlimited.
    pub fn get(&self, key: LimitKey) -> Option<u64> {
        self.0.get(&key).copied()
    }

    /// Sets one limit.
    pub fn set(&mut self, key: LimitKey, value: u64) {
        self.0.insert(key, value);
    }

    /// Reads `KEY=VALUE` and sets that limit.
    pub fn parse_and_set(&mut self, text: &str) -> Result<(), LimitError> {
        let (key, value) = text.split_once('=').ok_or_else(|| LimitError::Form(text.to_owned()))?;
        let key: LimitKey = key.trim().parse()?;
        self.set(key, key.parse_value(value)?);
        Ok(())
    }

    /// The lesser of each limit.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let mut least = self.clone();
        for (key, value) in &other.0 {
            least.0.entry(*key).and_modify(|v| *v = (*v).min(*value)).or_insert(*value);
        }
        least
    }

    /// The limits that are set, in order.
    pub fn iter(&self) -> impl Iterator<Item = (LimitKey, u64)> + '_ {
        self.0.iter().map(|(key, value)| (*key, *value))
    }
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(key, value)| (key.wire_name(), value)))
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut limits = Self::default();
        for (name, value) in wire {
            let key = LimitKey::ALL.into_iter().find(|key| key.wire_name() == name);
            limits.set(key.ok_or_else(|| D::Error::custom(format!("there is no limit `{name}`")))?, value);
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_needs_its_unit() {
        for (key, text, wanted) in [
            (LimitKey::Memory, "256MiB", Some(256 << 20)),
            (LimitKey::Memory, "1.5GiB", Some(3 << 29)),
            (LimitKey::Memory, "1e9", None),
            (LimitKey::Memory, "1000000000", None),
            (LimitKey::Memory, "-1GiB", None),
            (LimitKey::Memory, "99999999999TiB", None),
            (LimitKey::Wall, "30s", Some(30_000)),
            (LimitKey::Wall, "30", None),
            (LimitKey::Wall, "1.5min", Some(90_000)),
            (LimitKey::Processes, "128", Some(128)),
            (LimitKey::Processes, "1.5", None),
            (LimitKey::Processes, "0", None),
            (LimitKey::Cpus, "0.5", Some(500)),
            (LimitKey::Files, "50_000", Some(50_000)),
        ] {
            assert_eq!(key.parse_value(text).ok(), wanted, "{key}={text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for (key, value) in
            [(LimitKey::Memory, 256 << 20), (LimitKey::Wall, 300_000), (LimitKey::Cpus, 1500), (LimitKey::Output, 1_048_577)]
        {
            assert_eq!(key.parse_value(&key.show(value)), Ok(value));
        }
    }
}
