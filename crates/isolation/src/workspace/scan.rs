//! Walks a folder of the host before it becomes a view: what must be hidden, whose files they are, how much there is, and its identity.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_policy::{Hiding, WorkspacePath, is_secret};
use rustix::fs::{Mode, OFlags, open};
use sha2::{Digest, Sha256};

use super::beneath::{self, Entry};
use super::{GoOn, git_config};
use crate::compile::Veil;
use crate::image::hex;
use crate::text::OsText;

/// A repository's settings are not longer than this, bytes.
const LONGEST_SETTINGS: u64 = 1 << 20;

/// Why a folder cannot become a view.
#[derive(Debug, thiserror::Error)]
#[error("reading `{path}`: {source}")]
pub struct ScanError {
    /// What could not be read.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// A path that is not shown, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenPath {
    /// Relative to the folder.
    pub path: OsText,
    /// Why.
    pub reason: &'static str,
}

/// What is known of a folder.
#[derive(Debug, Default)]
pub struct Scan {
    /// What is hidden or replaced in the view.
    pub veil: Veil,
    /// What is hidden, with reasons.
    pub hidden: Vec<HiddenPath>,
    /// Files and links that are shown.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Owners of what is shown.
    pub uids: BTreeSet<u32>,
    /// Groups of what is shown.
    pub gids: BTreeSet<u32>,
    /// SHA-256, in hexadecimal, of the listing: path, kind, mode, size, time of change of content, link target.
    pub listing_sha256: String,
}

/// Scans `root`. Paths in `reveal` are shown although their name says that they hold secrets. `go_on` is told the number of files now and then,
/// and can end the scan.
pub fn scan(root: &Path, reveal: &[WorkspacePath], go_on: &mut GoOn<'_>) -> Result<Scan, ScanError> {
    let meta = fs::metadata(root).map_err(|source| ScanError { path: root.to_owned(), source })?;
    let mut scanner = Scanner { root, device: meta.dev(), reveal, scan: Scan::default(), digest: Sha256::new(), go_on };
    scanner.own(&meta);
    scanner.folder(Path::new(""))?;
    scanner.scan.listing_sha256 = hex(&scanner.digest.finalize());
    Ok(scanner.scan)
}

struct Scanner<'a> {
    root: &'a Path,
    device: u64,
    reveal: &'a [WorkspacePath],
    scan: Scan,
    digest: Sha256,
    go_on: &'a mut GoOn<'a>,
}

impl Scanner<'_> {
    fn folder(&mut self, folder: &Path) -> Result<(), ScanError> {
        let at = |path: PathBuf| move |source| ScanError { path, source };
        let full = self.root.join(folder);
        let mut names = fs::read_dir(&full)
            .and_then(|entries| entries.map(|e| e.map(|e| e.file_name())).collect::<std::io::Result<Vec<_>>>())
            .map_err(at(full.clone()))?;
        names.sort();
        let parent = if is_repository(&names) { OsStr::new(".git") } else { folder.file_name().unwrap_or_default() };
        for name in names {
            let path = folder.join(&name);
            let meta = fs::symlink_metadata(self.root.join(&path)).map_err(at(path.clone()))?;
            match self.judge(parent.as_bytes(), name.as_bytes(), &path, &meta) {
                Verdict::Hide(reason) => self.hide(&path, reason),
                Verdict::Replace => self.replace(&path)?,
                Verdict::Show => self.show(&path, &meta)?,
            }
        }
        Ok(())
    }

    fn judge(&self, parent: &[u8], name: &[u8], path: &Path, meta: &fs::Metadata) -> Verdict {
        let is_plain = meta.is_file() || meta.is_dir() || meta.is_symlink();
        let is_revealed = path.to_str().is_some_and(|p| self.reveal.iter().any(|r| r.as_str() == p));
        match is_secret(parent, name) {
            _ if !is_plain => Verdict::Hide("a socket, pipe or device"),
            // The view is of one file system; what another one shows here, it would not.
            _ if meta.dev() != self.device => Verdict::Hide("another file system is mounted here"),
            Hiding::GitConfig if !meta.is_file() => Verdict::Hide("a repository's settings that are not a plain file"),
            Hiding::Hidden if !is_revealed => Verdict::Hide("may hold secrets"),
            _ if !self.is_readable(path, meta) => Verdict::Hide("cannot be read"),
            Hiding::GitConfig => Verdict::Replace,
            Hiding::Hidden | Hiding::Shown => Verdict::Show,
        }
    }

    /// Root reads everything; another user sees by the mode of what is not a link.
    fn is_readable(&self, path: &Path, meta: &fs::Metadata) -> bool {
        let needed = if meta.is_dir() { rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK } else { rustix::fs::Access::READ_OK };
        meta.is_symlink() || meta.mode() & 0o004 != 0 && !meta.is_dir() || rustix::fs::access(self.root.join(path), needed).is_ok()
    }

    fn hide(&mut self, path: &Path, reason: &'static str) {
        let path = OsText::from(path.as_os_str().as_bytes());
        self.scan.veil.hidden.push(path.clone());
        self.scan.hidden.push(HiddenPath { path, reason });
    }

    fn replace(&mut self, path: &Path) -> Result<(), ScanError> {
        let text = self.read_settings(path).map_err(|source| ScanError { path: path.to_owned(), source })?;
        let harmless = git_config::harmless(&String::from_utf8_lossy(&text));
        self.note(path, "config", harmless.as_bytes());
        self.scan.veil.replaced.push((OsText::from(path.as_os_str().as_bytes()), harmless));
        Ok(())
    }

    /// Whoever owns the folder may put a link in the file's place meanwhile: none is followed.
    fn read_settings(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let root = open(self.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        match beneath::read(root.as_fd(), path.as_os_str().as_bytes(), LONGEST_SETTINGS)? {
            Entry::File { bytes, .. } => Ok(bytes),
            Entry::Missing | Entry::Link { .. } | Entry::Folder | Entry::Special => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    fn show(&mut self, path: &Path, meta: &fs::Metadata) -> Result<(), ScanError> {
        self.own(meta);
        if meta.is_dir() {
            self.note(path, &format!("folder {:o}", meta.mode() & 0o777), b"");
            return self.folder(path);
        }
        self.scan.files += 1;
        if self.scan.files.is_multiple_of(256) {
            (self.go_on)(self.scan.files).map_err(|source| ScanError { path: path.to_owned(), source })?;
        }
        if meta.is_symlink() {
            let target = fs::read_link(self.root.join(path)).map_err(|source| ScanError { path: path.to_owned(), source })?;
            self.note(path, "link", target.as_os_str().as_bytes());
        } else {
            self.scan.bytes += meta.len();
            let what = format!("file {:o} {} {}.{:09}", meta.mode() & 0o777, meta.len(), meta.mtime(), meta.mtime_nsec());
            self.note(path, &what, b"");
        }
        Ok(())
    }

    fn own(&mut self, meta: &fs::Metadata) {
        self.scan.uids.insert(meta.uid());
        self.scan.gids.insert(meta.gid());
    }

    fn note(&mut self, path: &Path, what: &str, more: &[u8]) {
        for part in [path.as_os_str().as_bytes(), what.as_bytes(), more] {
            self.digest.update(part);
            self.digest.update(b"\0");
        }
    }
}

/// What git takes for a repository, whatever its name: `.git`, those of submodules below `.git/modules`, and bare ones.
fn is_repository(names: &[OsString]) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|part| names.iter().any(|name| name == part))
}

enum Verdict {
    Hide(&'static str),
    Replace,
    Show,
}
