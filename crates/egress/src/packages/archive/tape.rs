//! Compressed tape archives: source distributions, Node packages and crates.

use std::fs::File;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::{Fault, check, check_link, check_name, parts, shown};
use crate::packages::limits::IndexLimits;

/// Node's manifests are read up to this.
const MOST_MANIFEST: u64 = 4 << 20;

/// What a tape archive says of itself, for Node.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    package_json: Option<Vec<u8>>,
    has_binding: bool,
}

impl Manifest {
    /// The same question as npm asks: a script of one of three names, or a native part that it would build.
    pub(super) fn runs_at_install(&self) -> Result<bool, Fault> {
        let text = self.package_json.as_deref().ok_or(Fault::Manifest)?;
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let manifest: serde_json::Value = serde_json::from_slice(text).map_err(|_| Fault::Manifest)?;
        Ok(crate::packages::node::has_scripts(&manifest) || (self.has_binding && manifest["gypfile"] != false))
    }
}

pub(super) fn inspect(file: &File, limits: &IndexLimits) -> Result<Manifest, Fault> {
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
