//! Storage on disk for what a run writes, in the private folder of the run.
//!
//! As root it is a file system of its own, in a sparse file that has no name: the kernel holds its bytes and files, and nothing of it can survive its
//! last mount. As an ordinary user it is a folder, which the supervisor sums. Both hold `/workspace`, `/tmp` and `/dev/shm` together.

mod clear;
mod file_system;
mod tally;

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ringfence_policy::Grade;
use serde::{Deserialize, Serialize};

use crate::host::{Finding, Host, HostError};
use crate::plan::Plan;
use crate::step::{AtStep, StepError};

pub use clear::clear_disk;
pub(crate) use tally::Tally;

/// Who keeps a disk to its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskForm {
    /// The kernel: it is a file system of its own.
    FileSystem,
    /// The supervisor: it is a folder.
    Folder,
}

/// Storage on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Private folder of the run, in which it is kept.
    pub folder: PathBuf,
    /// Who keeps it to its size.
    pub form: DiskForm,
    /// Most bytes for the run.
    pub bytes: u64,
    /// Most files and folders for the run.
    pub files: u64,
    /// Files and folders of the sandbox itself, which are not counted.
    pub own: u64,
    /// Programs on it may be executed.
    pub executable: bool,
}

/// The folder in the run's private folder that is shown, where the form is a folder.
const SHOWN: &str = "storage";

impl Disk {
    /// What is shown, where the form is a folder.
    pub(crate) fn shown(&self) -> PathBuf {
        self.folder.join(SHOWN)
    }
}

/// Makes the storage of a plan, if it is on disk. As root it is handed out as a mount; an ordinary user's init opens the folder by its path.
pub(crate) fn make(plan: &Plan) -> Result<Option<OwnedFd>, StepError> {
    let Some(disk) = plan.disk() else { return Ok(None) };
    let at = |folder: &Path| format!("make {}", folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&disk.folder).at(|| at(&disk.folder))?;
    match disk.form {
        DiskForm::FileSystem => file_system::make(disk, plan.identity).map(Some),
        DiskForm::Folder => DirBuilder::new().mode(0o700).create(disk.shown()).at(|| at(&disk.shown())).map(|()| None),
    }
}

impl Host {
    /// The form in which this host has storage on disk.
    pub fn disk_form(&self) -> DiskForm {
        if self.is_root { DiskForm::FileSystem } else { DiskForm::Folder }
    }

    /// Who holds bytes and files of storage on disk.
    pub fn disk_grade(&self) -> Grade {
        match self.disk_form() {
            DiskForm::FileSystem => Grade::Kernel,
            DiskForm::Folder => Grade::Watched,
        }
    }

    /// What storage on disk needs, with `folder` as the place for the private folders of runs.
    pub fn check_disk(&self, folder: &Path) -> Result<(), HostError> {
        check_place(self.disk_form(), folder)?;
        match self.disk_form() {
            DiskForm::FileSystem => file_system::check(),
            DiskForm::Folder => Ok(()),
        }
    }
}

/// File systems that are no disk: what is written there is memory.
const IN_MEMORY: &[(u64, &str)] = &[(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
/// File systems that cannot be the upper layer of a union (overlayfs(5)): no marks, or a server that does not keep them.
const NO_UPPER: &[(u64, &str)] = &[
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0xf15f, "ecryptfs"),
];

fn check_place(form: DiskForm, folder: &Path) -> Result<(), HostError> {
    let statfs = rustix::fs::statfs(folder).map_err(|errno| HostError {
        missing: format!("storage on disk needs `{}`, which cannot be looked at: {}", folder.display(), io::Error::from(errno)),
        hint: "set RINGFENCE_HOME to a folder on a disk".into(),
    })?;
    let kind = statfs.f_type as u64 & 0xffff_ffff;
    let is_one_of = |kinds: &[(u64, &str)]| kinds.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| (*name).to_owned());
    let refused = match form {
        DiskForm::FileSystem => is_one_of(IN_MEMORY),
        DiskForm::Folder => is_one_of(IN_MEMORY).or_else(|| is_one_of(NO_UPPER)),
    };
    match refused {
        None => Ok(()),
        Some(kind) => Err(HostError {
            missing: format!("storage cannot be on disk in `{}`: its file system is {kind}", folder.display()),
            hint: "set RINGFENCE_HOME to a folder on a disk of this machine (ext4, xfs or btrfs, say)".into(),
        }),
    }
}

/// What `doctor` says of storage on disk. Runs in memory work without it.
pub(crate) fn examine(host: &Host) -> Finding {
    let lacking = match host.disk_form() {
        DiskForm::FileSystem => file_system::check().err(),
        DiskForm::Folder => None,
    };
    let found = match (&lacking, host.disk_form()) {
        (Some(lacking), _) => lacking.missing.clone(),
        (None, DiskForm::FileSystem) => "grade kernel: a file system of its own for each run".into(),
        (None, DiskForm::Folder) => "grade watched: a folder that the supervisor sums; as root it is held by the kernel".into(),
    };
    Finding { what: "storage on disk".into(), is_good: true, found, hint: lacking.map(|lacking| lacking.hint) }
}
