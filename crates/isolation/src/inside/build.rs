//! Performs the plan's steps: one loop, one small function a step. Everything happens in the sandbox's own namespaces.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chownat, mknodat, open, statat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};

use super::copy;
use crate::plan::{Account, Plan, Step};
use crate::step::{AtStep, StepError, errno};
use crate::sys;
use crate::text::OsText;

/// Where the stage is mounted while the sandbox is built: a folder that every host has, hidden in this mount namespace only.
const STAGE: &str = "/usr";

/// Builds the view, and answers with descriptors of the workspace, `/tmp` and the changes.
pub(super) fn perform(plan: &Plan, given: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, StepError> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).at(|| "make mounts private".into())?;
    let sources = if given.is_empty() { crate::source::open_all(&plan.sources, plan.identity)? } else { given };
    let devices = open_devices(&plan.steps)?;
    stage()?;
    let mut builder = Builder { account: &plan.account, sources: sources.into_iter().map(Some).collect(), devices };
    let mut handles = Vec::new();
    for step in &plan.steps {
        if *step == Step::Enter {
            handles = open_handles(plan)?;
        }
        builder.perform(step).map_err(|errno| StepError { step: step.to_string(), errno })?;
    }
    Ok(handles)
}

fn stage() -> Result<(), StepError> {
    let at = || "mount the stage".to_owned();
    mount("tmpfs", STAGE, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"size=8m,nr_inodes=8192,mode=755").at(at)?;
    chdir(STAGE).at(at)
}

/// Devices are opened before the stage covers anything.
fn open_devices(steps: &[Step]) -> Result<Vec<(String, OwnedFd)>, StepError> {
    let names = steps.iter().filter_map(|step| match step {
        Step::Device { name } => Some(name),
        _ => None,
    });
    names
        .map(|name| {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let device = open_tree(CWD, format!("/dev/{name}"), flags).at(|| format!("open the host's /dev/{name}"))?;
            // Writing to a device still works; changing its times or owner does not.
            let flags = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
            sys::mount::set_attributes(device.as_fd(), flags, None).at(|| format!("make /dev/{name} read-only"))?;
            Ok((name.clone(), device))
        })
        .collect()
}

fn open_handles(plan: &Plan) -> Result<Vec<OwnedFd>, StepError> {
    let folders = [Some(format!("root{}", plan.workspace)), Some("scratch".to_owned()), plan.changes.clone()];
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    folders.into_iter().flatten().map(|folder| open(&folder, flags, Mode::empty()).at(|| format!("open {folder}"))).collect()
}

struct Builder<'a> {
    account: &'a Account,
    sources: Vec<Option<OwnedFd>>,
    devices: Vec<(String, OwnedFd)>,
}

impl Builder<'_> {
    fn perform(&mut self, step: &Step) -> Result<(), Errno> {
        match step {
            Step::Tree { source, at } => self.attach(*source, at),
            Step::Folder { at, mode, is_agents } => self.folder(at, *mode, *is_agents),
            Step::Tmpfs { at, bytes, files, executable } => tmpfs(at, *bytes, *files, *executable),
            Step::Union { at, layers, executable } => {
                overlay(at, &format!("userxattr,lowerdir={}", layers.join(":")), MountFlags::RDONLY | exec_flag(*executable))
            }
            Step::View { at, lower, upper, work, executable } => {
                let options = format!("userxattr,lowerdir={lower},upperdir={upper},workdir={work}");
                overlay(at, &options, exec_flag(*executable))
            }
            Step::Copy { from, to, hidden, replaced } => copy::tree(Path::new(from), Path::new(to), hidden, replaced, self.account),
            Step::Veil { layer, below, hidden, replaced } => self.veil(Path::new(layer), Path::new(below), hidden, replaced),
            Step::Bind { from, to, executable } => bind(from, to, *executable),
            Step::Device { name } => self.device(name),
            Step::Link { at, to } => symlink(to, at).map_err(errno),
            Step::Terminals { at, most } => {
                let options = format!("newinstance,ptmxmode=0666,mode=620,max={most}");
                fs::create_dir_all(at).map_err(errno)?;
                mount("devpts", at, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, cstring(&options)?.as_c_str())
            }
            Step::Proc { at } => proc(at),
            Step::Mask { at } => self.mask(at),
            Step::ReadOnly { at } => {
                rustix::mount::mount_remount(at, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC, c"")
            }
            Step::HostName { name } => rustix::system::sethostname(name.as_bytes()).and_then(|()| rustix::system::setdomainname(b"")),
            Step::Loopback => sys::loopback::bring_up(),
            Step::Enter => enter(),
        }
    }

    fn attach(&mut self, source: usize, at: &str) -> Result<(), Errno> {
        let tree = self.sources.get_mut(source).and_then(Option::take).ok_or(Errno::INVAL)?;
        fs::create_dir_all(at).map_err(errno)?;
        move_mount(&tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    }

    fn folder(&self, at: &str, mode: u32, is_agents: bool) -> Result<(), Errno> {
        fs::create_dir_all(at).map_err(errno)?;
        rustix::fs::chmod(at, Mode::from_raw_mode(mode))?;
        if is_agents { self.give_to_agent(Path::new(at)) } else { Ok(()) }
    }

    fn give_to_agent(&self, at: &Path) -> Result<(), Errno> {
        let (uid, gid) = (Uid::from_raw(self.account.uid), Gid::from_raw(self.account.gid));
        chownat(CWD, at, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn device(&self, name: &str) -> Result<(), Errno> {
        let at = format!("root/dev/{name}");
        fs::File::create(&at).map_err(errno)?;
        let device = self.devices.iter().find(|(n, _)| n == name).ok_or(Errno::NODEV)?;
        move_mount(&device.1, "", CWD, &at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    }

    /// The cover is the sandbox's own `/dev/null`.
    fn mask(&self, at: &str) -> Result<(), Errno> {
        match statat(CWD, at, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
            Ok(_) => {
                let cover = open_tree(CWD, "root/dev/null", OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
                move_mount(&cover, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            }
        }
    }

    /// A mark in an upper layer hides a path of the layer below: a character device 0:0, as overlayfs(5) defines.
    fn veil(&self, layer: &Path, below: &Path, hidden: &[OsText], replaced: &[(OsText, String)]) -> Result<(), Errno> {
        fs::create_dir_all(layer).map_err(errno)?;
        self.give_to_agent(layer)?;
        for path in hidden {
            self.parents(layer, below, path)?;
            mknodat(CWD, layer.join(path.as_os_str()), FileType::CharacterDevice, Mode::empty(), 0)?;
        }
        for (path, text) in replaced {
            self.parents(layer, below, path)?;
            let at = layer.join(path.as_os_str());
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o644).open(&at).map_err(errno)?;
            std::io::Write::write_all(&mut file, text.as_bytes()).map_err(errno)?;
            self.give_to_agent(&at)?;
        }
        Ok(())
    }

    /// Makes the folders above `path` in the layer, with the permissions that they have below.
    fn parents(&self, layer: &Path, below: &Path, path: &OsText) -> Result<(), Errno> {
        let mut so_far = std::path::PathBuf::new();
        for part in Path::new(path.as_os_str()).parent().into_iter().flat_map(Path::components) {
            so_far.push(part);
            let at = layer.join(&so_far);
            match fs::DirBuilder::new().create(&at) {
                Ok(()) => {
                    let mode = statat(CWD, below.join(&so_far), AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
                    rustix::fs::chmod(&at, Mode::from_raw_mode(mode & 0o777))?;
                    self.give_to_agent(&at)?;
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(errno(e)),
            }
        }
        Ok(())
    }
}

fn tmpfs(at: &str, bytes: u64, files: u64, executable: bool) -> Result<(), Errno> {
    fs::create_dir_all(at).map_err(errno)?;
    let options = format!("size={bytes},nr_inodes={files},mode=755");
    mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV | exec_flag(executable), cstring(&options)?.as_c_str())
}

fn overlay(at: &str, options: &str, flags: MountFlags) -> Result<(), Errno> {
    fs::create_dir_all(at).map_err(errno)?;
    mount("overlay", at, "overlay", MountFlags::NOSUID | MountFlags::NODEV | flags, cstring(options)?.as_c_str())
}

fn bind(from: &str, to: &str, executable: bool) -> Result<(), Errno> {
    let tree = open_tree(CWD, from, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    let no_exec = if executable { 0 } else { libc::MOUNT_ATTR_NOEXEC };
    sys::mount::set_attributes(tree.as_fd(), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | no_exec, None)?;
    move_mount(&tree, "", CWD, to, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn proc(at: &str) -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("proc", at, "proc", flags, c"hidepid=invisible") {
        Err(Errno::INVAL) => mount("proc", at, "proc", flags, c"hidepid=2"), // before Linux 5.8
        other => other,
    }
}

/// Both roots are stacked on one place, then the old one is taken away: no folder for it is needed.
fn enter() -> Result<(), Errno> {
    chdir("root")?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

fn exec_flag(executable: bool) -> MountFlags {
    if executable { MountFlags::empty() } else { MountFlags::NOEXEC }
}

fn cstring(text: &str) -> Result<std::ffi::CString, Errno> {
    std::ffi::CString::new(text).map_err(|_| Errno::INVAL)
}
