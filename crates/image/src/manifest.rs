//! The documents of an image, as they are written by others: only what is used is read, and all of it is checked by digest before.
//! Reference: the image specification of the Open Container Initiative; `docker save` for archives without an index.

use std::collections::BTreeMap;

use ringfence_policy::ImageDigest;
use serde::Deserialize;

use crate::error::ImageError;

/// What a document says of another one.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Descriptor {
    pub(crate) digest: ImageDigest,
    pub(crate) size: u64,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// An index or a manifest: which of the two it is stands in its fields.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    #[serde(default)]
    pub(crate) manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    pub(crate) config: Option<Descriptor>,
    #[serde(default)]
    pub(crate) layers: Option<Vec<Descriptor>>,
}

/// The configuration of an image. Who runs it, where and with which command is decided by policy, and not read.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    #[serde(default)]
    architecture: Option<String>,
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    pub(crate) created: Option<String>,
    #[serde(default)]
    config: Option<Settings>,
    pub(crate) rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(default, rename = "Env")]
    env: Option<Vec<String>>,
}

/// What the layers are once decompressed.
#[derive(Debug, Deserialize)]
pub(crate) struct RootFs {
    pub(crate) diff_ids: Vec<ImageDigest>,
}

/// One image of an archive of `docker save`.
#[derive(Debug, Deserialize)]
pub(crate) struct DockerImage {
    #[serde(rename = "Config")]
    pub(crate) config: String,
    #[serde(rename = "Layers")]
    pub(crate) layers: Vec<String>,
}

/// Annotation of what only speaks about an image, such as its attestation.
const REFERENCE: &str = "vnd.docker.reference.type";

/// This machine, in the words of images.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Reads a document.
pub(crate) fn read<'d, T: Deserialize<'d>>(name: &str, bytes: &'d [u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes).map_err(|error| ImageError::damaged(name, error))
}

/// The one image of an index that is for this machine.
pub(crate) fn choose<'d>(manifests: &'d [Descriptor], architecture: &str) -> Result<&'d Descriptor, ImageError> {
    let is_image = |d: &&Descriptor| !d.annotations.contains_key(REFERENCE);
    let fits = |d: &&Descriptor| d.platform.as_ref().is_some_and(|p| p.os == "linux" && p.architecture == architecture);
    let mut candidates: Vec<&Descriptor> = manifests.iter().filter(is_image).filter(fits).collect();
    if candidates.is_empty() {
        // Whoever says nothing of machines says it in the configuration, which is looked at later.
        candidates = manifests.iter().filter(is_image).filter(|d| d.platform.is_none()).collect();
    }
    candidates.sort_by(|a, b| a.digest.cmp(&b.digest)); // one image may stand there under several names
    candidates.dedup_by(|a, b| a.digest == b.digest);
    match candidates.as_slice() {
        [one] => Ok(one),
        several => Err(ImageError::Choice { architecture: architecture.to_owned(), found: several.len() }),
    }
}

impl Config {
    /// An image for another machine would fail at its first command, and say nothing of use.
    pub(crate) fn check_machine(&self, architecture: &str) -> Result<(), ImageError> {
        let (os, machine) = (self.os.as_deref().unwrap_or("linux"), self.architecture.as_deref().unwrap_or(architecture));
        match os == "linux" && machine == architecture {
            true => Ok(()),
            false => Err(ImageError::Unfit(format!("it is made for {os}/{machine}, and this machine is linux/{architecture}"))),
        }
    }

    /// The variables that it sets, the last of a name counting. What is no variable is left out.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let settings = self.config.iter().flat_map(|settings| settings.env.iter().flatten());
        let is_variable = |(name, value): &(&str, &str)| name.parse::<ringfence_policy::EnvName>().is_ok() && !value.contains('\0');
        settings.filter_map(|text| text.split_once('=')).filter(is_variable).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
    }
}
