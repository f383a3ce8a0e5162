//! Finds a profile by name among those that ship and those in the home, or by the path of a file.

use std::fs;
use std::path::Path;

use ringfence_evidence::Digest;
use ringfence_policy::{Profile, shipped};
use ringfence_store::Home;

use crate::error::RunError;

/// A profile with its text.
#[derive(Debug, Clone)]
pub struct ProfileText {
    /// The checked profile.
    pub profile: Profile,
    /// The text.
    pub text: String,
}

impl ProfileText {
    /// Digest of the text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    fn read(path: &Path) -> Result<Self, RunError> {
        let text = read_text(path).map_err(|source| RunError::File { act: "read profile", path: path.to_owned(), source })?;
        let found = Self::parse(&path.to_string_lossy(), text)?;
        match shipped().iter().any(|s| s.name == found.profile.name.as_str() && s.text != found.text) {
            true => Err(RunError::ShippedName { path: path.to_owned(), name: found.profile.name.to_string() }),
            false => Ok(found),
        }
    }

    fn parse(origin: &str, text: String) -> Result<Self, RunError> {
        Ok(Self { profile: Profile::parse(origin, &text)?, text })
    }
}

/// Finds a profile. A word with a slash or the ending `.toml` is a path; any other is a name.
pub fn find_profile(home: &Home, word: &str) -> Result<ProfileText, RunError> {
    if word.contains('/') || word.ends_with(".toml") {
        return ProfileText::read(Path::new(word));
    }
    if let Some(found) = shipped().iter().find(|s| s.name == word) {
        return ProfileText::parse(&format!("profiles/{word}.toml"), found.text.to_owned());
    }
    let own = home.root().join("profiles").join(format!("{word}.toml"));
    if own.exists() {
        return ProfileText::read(&own);
    }
    let known: Vec<&str> = shipped().iter().map(|s| s.name).collect();
    Err(RunError::NoProfile { name: word.escape_debug().to_string(), known: known.join(", ") })
}

/// Reads a text that a person wrote: a plain file of sensible length. (A pipe or a device would keep us for ever.)
pub fn read_text(path: &Path) -> std::io::Result<String> {
    const LONGEST: u64 = 1 << 20;
    let meta = fs::metadata(path)?;
    match meta.is_file() && meta.len() <= LONGEST {
        true => fs::read_to_string(path),
        false => Err(std::io::Error::other("is not a regular file of at most 1 MiB")),
    }
}
