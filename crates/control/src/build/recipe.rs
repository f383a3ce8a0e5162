//! What an image is built from, as a person writes it, and checked.

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_policy::{ImageDigest, ImageName, ImageTag, WorkspacePath};
use serde::Deserialize;

use super::BuildError;
use crate::profiles::read_text;

/// A recipe.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    /// The name that the image gets where the caller gives none.
    pub(super) name: ImageTag,
    /// What it is laid over.
    #[serde(default = "host")]
    pub(super) base: ImageName,
    #[serde(default)]
    debian: Debian,
    #[serde(default)]
    python: Python,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Debian {
    #[serde(default)]
    packages: Vec<Pinned>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Python {
    #[serde(default)]
    requirements: Vec<Pinned>,
    /// Programs of the image: names, and where they are among what was installed.
    #[serde(default)]
    programs: BTreeMap<String, String>,
}

/// A file by its name, version and content; more than one digest where each machine has a file of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pinned {
    pub(super) name: String,
    pub(super) version: String,
    #[serde(deserialize_with = "digests")]
    pub(super) sha256: Vec<ImageDigest>,
}

fn host() -> ImageName {
    ImageName::Host
}

/// Written as 64 digits.
fn digests<'d, D: serde::Deserializer<'d>>(deserializer: D) -> Result<Vec<ImageDigest>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| format!("sha256:{text}").parse().map_err(serde::de::Error::custom)).collect()
}

/// Recipes that ship with the program.
const SHIPPED: &[(&str, &str)] =
    &[("python", include_str!("../../../../images/python.toml")), ("node", include_str!("../../../../images/node.toml"))];

impl Recipe {
    /// Finds a recipe. A word with a slash or the ending `.toml` is a path; any other is one that ships.
    pub(super) fn find(word: &str) -> Result<Self, BuildError> {
        if word.contains('/') || word.ends_with(".toml") {
            let text = read_text(Path::new(word)).map_err(|source| BuildError::File { path: word.into(), source })?;
            return Self::parse(word, &text);
        }
        let shipped = SHIPPED.iter().find(|(name, _)| *name == word);
        let known = || SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let (name, text) = shipped.ok_or_else(|| BuildError::NoRecipe { name: word.escape_debug().to_string(), known: known() })?;
        Self::parse(&format!("images/{name}.toml"), text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, BuildError> {
        let bad = |cause: String| BuildError::Recipe { file: file.to_owned(), cause };
        let recipe: Self = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        if let Some(odd) = recipe.python().chain(recipe.debian()).find(|pinned| !pinned.is_plain()) {
            return Err(bad(format!("`{}` needs a plain name and version, and the digest of at least one file", odd.name.escape_debug())));
        }
        let is_path = |text: &str| text.parse::<WorkspacePath>().is_ok();
        if let Some((name, _)) = recipe.programs().find(|(name, place)| name.contains('/') || !is_path(name) || !is_path(place)) {
            return Err(bad(format!("program `{}` needs a plain name and a path without `..`", name.escape_debug())));
        }
        Ok(recipe)
    }

    pub(super) fn python(&self) -> impl Iterator<Item = &Pinned> {
        self.python.requirements.iter()
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = (&String, &String)> {
        self.python.programs.iter()
    }

    pub(super) fn debian(&self) -> impl Iterator<Item = &Pinned> {
        self.debian.packages.iter()
    }

    /// For pip: every file by its hash, and nothing that is not listed.
    pub(super) fn requirements(&self) -> String {
        let hashes = |pinned: &Pinned| pinned.sha256.iter().map(|sha256| format!(" --hash={sha256}")).collect::<String>();
        let lines = self.python().map(|pinned| format!("{}=={}{}\n", pinned.name, pinned.version, hashes(pinned)));
        lines.collect()
    }
}

impl Pinned {
    /// Nothing that a list of requirements could read as something else.
    fn is_plain(&self) -> bool {
        let is_word = |text: &str, more: &[u8]| {
            !text.is_empty() && !text.starts_with('-') && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
        };
        is_word(&self.name, b"._-+") && is_word(&self.version, b"._-+!~:") && !self.sha256.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_recipe_reads_and_is_named_as_its_file() {
        for (name, _) in SHIPPED {
            let recipe = Recipe::find(name).unwrap();
            assert_eq!((recipe.name.name(), &recipe.base), (*name, &ImageName::Host));
            assert!(recipe.requirements().lines().all(|line| line.contains(" --hash=sha256:")), "{}", recipe.requirements());
        }
    }

    #[test]
    fn what_pip_could_read_as_an_option_is_refused() {
        let recipe = |name: &str, version: &str| {
            let sha256 = "1".repeat(64);
            Recipe::parse(
                "r",
                &format!(
                    "name = \"x\"\n[python]\nrequirements = [{{ name = \"{name}\", version = \"{version}\", sha256 = [\"{sha256}\"] }}]"
                ),
            )
        };
        assert!(recipe("numpy", "2.4.6").is_ok());
        for (name, version) in [("-r", "1"), ("a b", "1"), ("a", "1 --pre"), ("a", ""), ("a\\n-r x", "1"), ("a @ file:///x", "1")] {
            assert!(recipe(name, version).is_err(), "{name} {version}");
        }
        assert!(Recipe::parse("r", "name = \"x\"\n[python]\nprograms = { sh = \"../../bin/sh\" }").is_err());
        assert!(matches!(Recipe::find("../python"), Err(BuildError::File { .. })));
        assert!(matches!(Recipe::find("nothing"), Err(BuildError::NoRecipe { .. })));
    }
}
