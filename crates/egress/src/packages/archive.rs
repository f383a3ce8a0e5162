//! Looking into an archive before it goes inside: everything in it must unpack into its own folder, into a bounded number of plain files.
//!
//! Nothing is written: entries are counted as they stream by. What cannot be read as the client will read it is refused.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};

use flate2::read::MultiGzDecoder;
use tar::EntryType;
use zip::ZipArchive;

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
    #[error("holds a package.json that cannot be read")]
    Manifest,
    #[error("holds scripts that run at its install")]
    Scripts,
}

/// Node's manifests are read up to this.
const MOST_MANIFEST: u64 = 4 << 20;

/// Looks into a file of this format. `are_scripts_allowed` is asked of Node packages.
pub(crate) fn inspect(file: &File, format: Format, limits: &IndexLimits, are_scripts_allowed: bool) -> Result<(), Fault> {
    let mut file = file;
    file.rewind()?;
    match format {
        Format::Zip => inspect_zip(file, limits),
        Format::Tarball => inspect_tar(file, limits).map(drop),
        Format::NodeTarball => match inspect_tar(file, limits)?.runs_at_install()? && !are_scripts_allowed {
            true => Err(Fault::Scripts),
            false => Ok(()),
        },
    }
}

fn inspect_zip(file: &File, limits: &IndexLimits) -> Result<(), Fault> {
    let listed = listed_entries(file)?;
    let mut archive = ZipArchive::new(file).map_err(io::Error::from)?;
    check(archive.len() as u64 <= limits.archive_entries, || Fault::Many(limits.archive_entries))?;
    check(archive.len() as u64 == listed, || Fault::Twice)?;
    let mut left = limits.archive_bytes;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(io::Error::from)?;
        let name = entry.name().to_owned();
        check_name(&name)?;
        match entry.unix_mode().unwrap_or_default() & 0o170_000 {
            0 | 0o100_000 | 0o040_000 => {}
            0o120_000 => {
                let mut target = String::new();
                entry.by_ref().take(4097).read_to_string(&mut target)?;
                check_link(&name, &target)?;
            }
            _ => return Err(Fault::Special(shown(&name))),
        }
        let read = io::copy(&mut entry.take(left + 1), &mut io::sink())?;
        left = left.checked_sub(read).ok_or(Fault::Large(limits.archive_bytes))?;
    }
    Ok(())
}

/// How many entries the directory at the end of a zip file says there are: a reader by name sees those of one name only once.
fn listed_entries(mut file: &File) -> Result<u64, Fault> {
    let size = file.seek(SeekFrom::End(0))?;
    let start = file.seek(SeekFrom::Start(size.saturating_sub(65_557 + 20)))?;
    let mut tail = Vec::new();
    file.take(size - start).read_to_end(&mut tail)?;
    let bad = || Fault::Unreadable(io::Error::other("it has no directory"));
    let end = tail.windows(4).rposition(|bytes| bytes == b"PK\x05\x06").ok_or_else(bad)?;
    let count = tail.get(end + 10..end + 12).map(|bytes| u64::from(u16::from_le_bytes([bytes[0], bytes[1]]))).ok_or_else(bad)?;
    if count < 0xffff {
        return Ok(count);
    }
    let locator = end.checked_sub(20).and_then(|at| tail.get(at..end)).filter(|bytes| bytes.starts_with(b"PK\x06\x07")).ok_or_else(bad)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| bad());
    file.seek(SeekFrom::Start(number(&locator[8..16])?))?;
    let mut record = [0; 40];
    file.read_exact(&mut record)?;
    number(&record[32..40])
}

/// What a tape archive says of itself, for Node.
#[derive(Debug, Default)]
struct Manifest {
    package_json: Option<Vec<u8>>,
    has_binding: bool,
}

impl Manifest {
    /// The same question as npm asks: a script of one of three names, or a native part that it would build.
    fn runs_at_install(&self) -> Result<bool, Fault> {
        let text = self.package_json.as_deref().ok_or(Fault::Manifest)?;
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let manifest: serde_json::Value = serde_json::from_slice(text).map_err(|_| Fault::Manifest)?;
        Ok(super::node::has_scripts(&manifest) || (self.has_binding && manifest["gypfile"] != false))
    }
}

fn inspect_tar(file: &File, limits: &IndexLimits) -> Result<Manifest, Fault> {
    let bounded = Bounded { inner: MultiGzDecoder::new(io::BufReader::new(file)), left: limits.archive_bytes, is_over: false };
    let mut archive = tar::Archive::new(bounded);
    let found = walk_tar(&mut archive, limits);
    match archive.into_inner().is_over {
        true => Err(Fault::Large(limits.archive_bytes)),
        false => found,
    }
}

fn walk_tar<R: Read>(archive: &mut tar::Archive<R>, limits: &IndexLimits) -> Result<Manifest, Fault> {
    let (mut manifest, mut entries) = (Manifest::default(), 0);
    for entry in archive.entries()? {
        let mut entry = entry?;
        entries += 1;
        check(entries <= limits.archive_entries, || Fault::Many(limits.archive_entries))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        check_name(&name)?;
        let target = entry.link_name_bytes().map(|target| String::from_utf8_lossy(&target).into_owned()).unwrap_or_default();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory | EntryType::XGlobalHeader => {}
            EntryType::Symlink => check_link(&name, &target)?,
            EntryType::Link => check_name(&target).map_err(|_| Fault::Out(shown(&name)))?,
            _ => return Err(Fault::Special(shown(&name))),
        }
        match parts(&name).collect::<Vec<_>>()[..] {
            [_, "binding.gyp"] => manifest.has_binding = true,
            [_, "package.json"] => {
                let mut text = Vec::new();
                entry.by_ref().take(MOST_MANIFEST + 1).read_to_end(&mut text)?;
                check(text.len() as u64 <= MOST_MANIFEST, || Fault::Manifest)?;
                manifest.package_json = Some(text);
            }
            _ => {}
        }
    }
    Ok(manifest)
}

/// A reader that ends with an error after so many bytes.
struct Bounded<R> {
    inner: R,
    left: u64,
    is_over: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.is_over = read as u64 > self.left;
        self.left = self.left.saturating_sub(read as u64);
        match self.is_over {
            true => Err(io::Error::other("it is larger than the limit")),
            false => Ok(read),
        }
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
