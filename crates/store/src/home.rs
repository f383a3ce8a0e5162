//! The folder in which everything is kept, readable by its owner alone.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{At, StoreError};
use crate::states::States;

/// The format of this version. A home with a higher number is refused.
pub const FORMAT: u32 = 1;

/// Folders that are made with a home.
const MADE: &[&str] =
    &["runs", "live", "work", "artifacts", "images", "keys", "agents", "persons", "promotions", "damaged", "credentials", "states"];

/// A home.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Opens a home, making it if it is not there.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        make_private(root)?;
        let root = fs::canonicalize(root).at("open", root)?;
        let home = Self { root };
        home.check_owner()?;
        home.check_format()?;
        home.made().try_for_each(|folder| make_private(&folder))?;
        Ok(home)
    }

    /// The folders that are made with it, each its owner's alone.
    pub(crate) fn made(&self) -> impl Iterator<Item = PathBuf> {
        MADE.iter().map(|folder| self.root.join(folder))
    }

    /// Whoever can write to a home can change its ceiling and its records.
    fn check_owner(&self) -> Result<(), StoreError> {
        let meta = fs::metadata(&self.root).at("look at", &self.root)?;
        let loose = |cause: String| Err(StoreError::Loose { path: self.root.clone(), cause });
        match (meta.uid() == rustix::process::geteuid().as_raw(), meta.mode() & 0o022) {
            (false, _) => loose(format!("belongs to user {}, not to you", meta.uid())),
            (true, 0) => Ok(()),
            (true, _) => loose(format!("can be written by others (mode {:o})", meta.mode() & 0o777)),
        }
    }

    fn check_format(&self) -> Result<(), StoreError> {
        let path = self.root.join("format");
        match fs::read_to_string(&path) {
            Ok(text) if text.trim().parse::<u32>().is_ok_and(|found| found <= FORMAT) => Ok(()),
            Ok(text) => Err(StoreError::Newer { path: self.root.clone(), found: text.trim().escape_debug().to_string(), known: FORMAT }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => write_whole(&path, format!("{FORMAT}\n").as_bytes(), 0o600),
            Err(e) => Err(e).at("read", &path),
        }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes what processes that are gone were about to write.
    pub fn sweep(&self) -> Result<(), StoreError> {
        [self.root.clone(), self.root.join("keys"), self.agents(), self.root.join("persons")]
            .iter()
            .try_for_each(|folder| sweep_drafts(folder))?;
        States::of(self).sweep()?;
        self.sweep_images()
    }

    /// Images that were being made (`draft-PID-…`).
    fn sweep_images(&self) -> Result<(), StoreError> {
        for entry in fs::read_dir(self.images()).at("read", &self.images())?.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix("draft-")?.split('-').next()?.parse::<i32>().ok());
            if pid.is_some_and(is_gone) {
                unless_gone(fs::remove_dir_all(entry.path())).at("remove", &entry.path())?;
            }
        }
        Ok(())
    }

    /// Settings.
    pub fn settings(&self) -> PathBuf {
        self.root.join("ringfence.toml")
    }

    /// Records of the runs.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// One file for each run that is not sealed yet, locked by the process that has it.
    pub fn live(&self) -> PathBuf {
        self.root.join("live")
    }

    /// Marks of runs whose record could not be ended.
    pub fn damaged(&self) -> PathBuf {
        self.root.join("damaged")
    }

    /// Private copies that a run needs, gone with it.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// What is shown of approvals that belong to no promotion.
    pub fn approvals(&self) -> PathBuf {
        self.root.join("approvals")
    }

    /// Evidence of promotions.
    pub fn promotions(&self) -> PathBuf {
        self.root.join("promotions")
    }

    /// Images and what was made from the host.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Files of packages, kept between runs.
    pub fn packages(&self) -> PathBuf {
        self.root.join("packages")
    }

    /// Files of runs that outlive them.
    pub fn states(&self) -> PathBuf {
        self.root.join("states")
    }

    /// Registered agents.
    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }
}

fn make_private(folder: &Path) -> Result<(), StoreError> {
    match folder.metadata() {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(std::io::Error::from(std::io::ErrorKind::NotADirectory)).at("open", folder),
        Err(_) => DirBuilder::new().recursive(true).mode(0o700).create(folder).at("make", folder),
    }
}

/// Removes drafts (`NAME.draft-PID`) of processes that are gone.
pub(crate) fn sweep_drafts(folder: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.rsplit_once(".draft-")?.1.parse::<i32>().ok());
        if pid.is_some_and(is_gone) {
            unless_gone(fs::remove_file(entry.path())).at("remove", &entry.path())?;
        }
    }
    Ok(())
}

/// Another process may sweep at the same time.
pub(crate) fn unless_gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn is_gone(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Where a file is written before it is put in its place: for each writer another name, by which a sweep knows its process.
pub fn draft_of(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (number, process) = (NEXT.fetch_add(1, Ordering::Relaxed), std::process::id());
    path.with_extension(format!("{number}.draft-{process}"))
}

/// Writes a file so that it is there whole or not at all, and durably.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), StoreError> {
    by_way_of_draft(path, bytes, mode, File::sync_all)?;
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).at("flush", folder)
}

/// Writes a file so that every reader sees it whole or not at all. It is durable once the file that is handed out, and its folder, are flushed.
pub(crate) fn place_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<File, StoreError> {
    by_way_of_draft(path, bytes, mode, |_| Ok(()))
}

fn by_way_of_draft(path: &Path, bytes: &[u8], mode: u32, before: fn(&File) -> std::io::Result<()>) -> Result<File, StoreError> {
    let draft = draft_of(path);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft).at("make", &draft)?;
    let written = file.write_all(bytes).and_then(|()| file.set_permissions(fs::Permissions::from_mode(mode))).and_then(|()| before(&file));
    let done = written.and_then(|()| fs::rename(&draft, path));
    if done.is_err() {
        // The draft is of no use; the error below is what matters.
        fs::remove_file(&draft).unwrap_or_default();
    }
    done.at("write", path).map(|()| file)
}
