//! `ringfence.toml`: the operator's ceiling. First use writes one that no agent can talk its way over.

use std::fs;
use std::path::Path;

use ringfence_evidence::Digest;
use ringfence_policy::{Bound, parse_settings};

use crate::error::RunError;

const FIRST: &str = include_str!("first-settings.toml");

/// The operator's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The bound on every run.
    pub ceiling: Bound,
    /// Digest of the text.
    pub digest: Digest,
}

impl Settings {
    /// Reads settings; with `is_home` a file that is not there is written first.
    pub fn load(path: &Path, is_home: bool) -> Result<Self, RunError> {
        let file = |act| move |source| RunError::File { act, path: path.to_owned(), source };
        let text = match fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && is_home => {
                fs::write(path, FIRST).map_err(file("write"))?;
                FIRST.to_owned()
            }
            read => read.map_err(file("read"))?,
        };
        let ceiling = parse_settings(&path.to_string_lossy(), &text)?;
        Ok(Self { ceiling, digest: Digest::of(text.as_bytes()) })
    }
}
