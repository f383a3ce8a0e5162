//! `ringfence.toml`: the operator's ceiling and targets. First use writes one that no agent can talk its way over.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ringfence_evidence::Digest;
use ringfence_policy::{Bound, Consent, MostKept, OperatorSettings, Target, TargetName, parse_settings};
use ringfence_store::draft_of;

use crate::error::RunError;

const FIRST: &str = include_str!("first-settings.toml");

/// The operator's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The bound on every run.
    pub ceiling: Bound,
    /// Where artifacts can be promoted to.
    pub targets: BTreeMap<TargetName, Target>,
    /// Who decides about new versions of agents.
    pub agents: Consent,
    /// The profile of each template, by which clients of E2B ask for a sandbox.
    pub templates: BTreeMap<String, String>,
    /// How much a tenant of a server may keep.
    pub state: MostKept,
    /// Digest of the text.
    pub digest: Digest,
}

impl Settings {
    /// Reads settings; with `is_home` a file that is not there is written first.
    pub fn load(path: &Path, is_home: bool) -> Result<Self, RunError> {
        let file = |act| move |source| RunError::File { act, path: path.to_owned(), source };
        let text = match crate::profiles::read_text(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && is_home => {
                write_first(path).map_err(file("write"))?;
                crate::profiles::read_text(path).map_err(file("read"))?
            }
            read => read.map_err(file("read"))?,
        };
        let OperatorSettings { ceiling, targets, agents, templates, state } = parse_settings(&path.to_string_lossy(), &text)?;
        Ok(Self { ceiling, targets, agents, templates, state, digest: Digest::of(text.as_bytes()) })
    }
}

/// There whole or not at all, and only once, however many processes are at their first use: a ceiling that was cut would bound nothing.
fn write_first(path: &Path) -> std::io::Result<()> {
    let draft = draft_of(path);
    // Whoever can write to it bounds every run, whatever the umask is.
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(FIRST.as_bytes()).and_then(|()| file.sync_all())?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(e),
        Ok(()) | Err(_) => Ok(()),
    }
}
