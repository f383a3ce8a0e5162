//! What an index says of a Python package, in either of its two forms.

use std::collections::BTreeMap;

use reqwest::Url;
use ringfence_policy::{Ecosystem, PackageName, PackageVersion};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::html;
use crate::packages::client::Page;
use crate::packages::digest::{Algorithm, FileHash};

/// One file of a package.
#[derive(Debug, Clone)]
pub(crate) struct PythonFile {
    pub(crate) file_name: String,
    pub(crate) version: PackageVersion,
    pub(crate) url: Url,
    pub(crate) hashes: Vec<FileHash>,
    pub(crate) is_source: bool,
    pub(crate) requires_python: Option<String>,
    /// The reason, which may be empty.
    pub(crate) yanked: Option<String>,
    /// The hash of the metadata that stands beside the file.
    pub(crate) metadata: Option<FileHash>,
    pub(crate) published_at: Option<OffsetDateTime>,
}

/// A file as it is told, before its name and hashes are understood.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Told {
    pub(super) filename: String,
    pub(super) url: String,
    pub(super) hashes: BTreeMap<String, String>,
    pub(super) requires_python: Option<String>,
    pub(super) yanked: Option<Flag>,
    pub(super) core_metadata: Option<Beside>,
    /// The older name of the same.
    pub(super) dist_info_metadata: Option<Beside>,
    pub(super) upload_time: Option<String>,
}

/// A fact with or without a reason.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Flag {
    Is(bool),
    Because(String),
}

/// Metadata beside a file: that there is some, or its hashes. Without a hash it is of no use to us.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Beside {
    Is(#[expect(dead_code, reason = "it takes its place in the format")] bool),
    Hashes(BTreeMap<String, String>),
}

#[derive(Deserialize)]
struct Listing {
    files: Vec<Told>,
}

/// Reads a page. Files whose name says nothing of their version are left out, as clients do.
pub(super) fn parse(name: &PackageName, page: &Page) -> Option<Vec<PythonFile>> {
    let told = match page.content_type.contains("json") {
        true => serde_json::from_slice::<Listing>(&page.body).ok()?.files,
        false => html::parse(&String::from_utf8_lossy(&page.body)),
    };
    Some(told.into_iter().filter_map(|told| understood(name, &page.url, told)).collect())
}

fn understood(name: &PackageName, base: &Url, told: Told) -> Option<PythonFile> {
    let (version, is_source) = version_of(name, &told.filename)?;
    let beside = told.core_metadata.or(told.dist_info_metadata);
    Some(PythonFile {
        version,
        is_source,
        url: base.join(&told.url).ok()?,
        hashes: hashes(&told.hashes),
        requires_python: told.requires_python,
        yanked: match told.yanked {
            Some(Flag::Is(true)) => Some(String::new()),
            Some(Flag::Because(reason)) => Some(reason),
            Some(Flag::Is(false)) | None => None,
        },
        metadata: match beside {
            Some(Beside::Hashes(all)) => hashes(&all).into_iter().next(),
            Some(Beside::Is(_)) | None => None,
        },
        published_at: told.upload_time.and_then(|text| OffsetDateTime::parse(&text, &Rfc3339).ok()),
        file_name: told.filename,
    })
}

/// The hashes that are worth something here.
fn hashes(all: &BTreeMap<String, String>) -> Vec<FileHash> {
    let read = |algorithm: Algorithm| FileHash::from_digits(algorithm, all.get(algorithm.word())?);
    [Algorithm::Sha256, Algorithm::Sha512].into_iter().filter_map(read).collect()
}

/// The version that a file's name states, and whether it is a source distribution.
fn version_of(name: &PackageName, file_name: &str) -> Option<(PackageVersion, bool)> {
    let is_plain = file_name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+!".contains(&b));
    let is_ours = |text: &str| PackageName::parse(Ecosystem::Python, text).is_ok_and(|read| read == *name);
    let version = |text: &str| PackageVersion::parse(Ecosystem::Python, text).ok();
    if !is_plain {
        return None;
    }
    if let Some(stem) = file_name.strip_suffix(".whl") {
        let parts: Vec<&str> = stem.split('-').collect();
        let is_wheel = matches!(parts.len(), 5 | 6) && is_ours(parts[0]);
        return is_wheel.then(|| version(parts[1]))?.map(|version| (version, false));
    }
    let stem = file_name.strip_suffix(".tar.gz").or_else(|| file_name.strip_suffix(".zip"))?;
    // Both a name and a version may hold hyphens in old files.
    let cuts = stem.match_indices('-').map(|(at, _)| stem.split_at(at));
    cuts.filter(|(head, _)| is_ours(head)).find_map(|(_, tail)| version(&tail[1..])).map(|version| (version, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_of_the_file() {
        let name = PackageName::parse(Ecosystem::Python, "left-pad").unwrap();
        let read = |file: &str| version_of(&name, file).map(|(version, is_source)| (version.to_string(), is_source));
        assert_eq!(read("left_pad-1.0-py3-none-any.whl"), Some(("1.0".into(), false)));
        assert_eq!(read("Left.Pad-1.0-1-cp311-cp311-linux_x86_64.whl"), Some(("1.0".into(), false)));
        assert_eq!(read("left-pad-1.0rc1.tar.gz"), Some(("1.0rc1".into(), true)));
        for other in
            ["left_pad-x-py3-none-any.whl", "right_pad-1.0.tar.gz", "left_pad-1.0.exe", "../left_pad-1.0.zip", "left_pad-1.0.tar.bz2"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
