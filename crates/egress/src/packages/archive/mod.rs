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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn zipped() -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for name in ["a/b", "a/c"] {
            writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(name.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn taped() -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        archive.append_data(&mut header, "package/package.json", &b"{}"[..]).unwrap();
        archive.into_inner().unwrap()
    }

    /// Each of its changed bytes, then looked into.
    fn looked_into(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)], format: Format) -> Result<(), Fault> {
        changes.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = *byte);
        if format != Format::Zip {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(&bytes).unwrap();
            bytes = packed.finish().unwrap();
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        inspect(&file, format, &IndexLimits { archive_bytes: 1 << 20, ..IndexLimits::default() }, false)
    }

    proptest! {
        #[test]
        fn any_change_is_read_or_refused(changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6)) {
            drop(looked_into(zipped(), &changes, Format::Zip));
            drop(looked_into(taped(), &changes, Format::NodeTarball));
        }
    }

    #[test]
    fn what_is_unchanged_is_well() {
        looked_into(zipped(), &[], Format::Zip).unwrap();
        looked_into(taped(), &[], Format::NodeTarball).unwrap();
    }
}
