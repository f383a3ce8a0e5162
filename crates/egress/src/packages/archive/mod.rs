//! Looking into an archive before it goes inside: everything in it must unpack into its own folder, into a bounded number of plain files.
//!
//! Nothing is written: entries are counted as they stream by. What cannot be read as the client will read it is refused.

mod tape;
mod zipped;

use std::fs::File;
use std::io::{self, Seek as _};

use super::limits::IndexLimits;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A wheel, or a source distribution that is a zip file.
    Zip,
    /// A compressed tape archive.
    Tarball,
    /// The same, of a Node package: what it says of its scripts is read too.
    NodeTarball,
}

impl Format {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Tarball => "tar",
            Self::NodeTarball => "node",
        }
    }
}

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot be read as an archive: {0}")]
    Unreadable(#[from] io::Error),
    #[error("holds `{0}`, which leads out of its folder")]
    Out(String),
    #[error("holds `{0}`, which is neither file, folder nor link")]
    Special(String),
    #[error("holds more than {0} entries")]
    Many(u64),
    #[error("unpacks to more than {0} bytes")]
    Large(u64),
    #[error("holds entries of the same name")]
    Twice,
    #[error("has a directory that does not agree with its entries")]
    Directory,
    #[error("holds a package.json that cannot be read")]
    Manifest,
    #[error("holds scripts that run at its install")]
    Scripts,
}

/// Looks into a file of this format. `are_scripts_allowed` is asked of Node packages.
pub(crate) fn inspect(file: &File, format: Format, limits: &IndexLimits, are_scripts_allowed: bool) -> Result<(), Fault> {
    let mut file = file;
    file.rewind()?;
    match format {
        Format::Zip => zipped::inspect(file, limits),
        Format::Tarball => tape::inspect(file, limits).map(drop),
        Format::NodeTarball => match tape::inspect(file, limits)?.runs_at_install()? && !are_scripts_allowed {
            true => Err(Fault::Scripts),
            false => Ok(()),
        },
    }
}

fn check(holds: bool, fault: impl FnOnce() -> Fault) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault()) }
}

/// The parts of a path; a client on any system may take either slash for a separator.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".")
}

fn is_absolute(path: &str) -> bool {
    let has_drive = path.as_bytes().get(1) == Some(&b':') && path.starts_with(|c: char| c.is_ascii_alphabetic());
    path.starts_with(['/', '\\']) || has_drive
}

fn check_name(name: &str) -> Result<(), Fault> {
    let leads_out = is_absolute(name) || name.contains('\0') || parts(name).any(|part| part == "..");
    check(!leads_out, || Fault::Out(shown(name)))
}

/// A link may point anywhere in the archive's own folder. Its target counts from the folder that it is in.
fn check_link(name: &str, target: &str) -> Result<(), Fault> {
    let mut depth = parts(name).count() as i64 - 1;
    let mut is_inside = !is_absolute(target) && target.len() <= 4096 && !target.contains('\0');
    for part in parts(target) {
        depth += if part == ".." { -1 } else { 1 };
        is_inside &= depth >= 0;
    }
    check(is_inside, || Fault::Out(shown(&format!("{name} -> {target}"))))
}

fn shown(name: &str) -> String {
    name.chars().take(120).flat_map(char::escape_default).collect()
}
