//! A file system of a run's own: ext4 without a journal in a sparse file, through a loop device that lets go by itself.
//!
//! It is made a little larger than what was granted, since its tables need room that can only be known once it stands; what is too much then is
//! taken by files without content that nobody inside can reach. So the run has exactly what was granted, in bytes and in files.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{FallocateFlags, Gid, Mode, OFlags, Uid, chownat, fallocate, fstatfs, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen};

use super::Disk;
use crate::host::HostError;
use crate::plan::Identity;
use crate::step::{AtStep, StepError};
use crate::sys::loop_device;

/// The tool of the host that makes the file system.
const MAKER: &str = "mke2fs";
/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Bytes of a file's entry in the tables.
const ENTRY: u64 = 256;
/// Entries that ext4 keeps for itself.
const KEPT_ENTRIES: u64 = 11;
/// Bytes of the file for each entry at the least: a group has no more entries than bits in a block.
const BYTES_PER_ENTRY: u64 = 5000;
/// Room for what has a size of its own.
const SPARE: u64 = 4 << 20;
/// All that it can do: what our kernels know, nothing of a journal, and tables that need not be written before they are used.
const FEATURES: &str = "none,ext_attr,dir_index,filetype,extent,flex_bg,large_file,huge_file,dir_nlink,extra_isize,sparse_super,uninit_bg";

/// Looks whether this host can make one.
pub(super) fn check() -> Result<(), HostError> {
    let lacks = |missing: String, hint: &str| Err(HostError { missing: format!("storage on disk needs {missing}"), hint: hint.into() });
    if let Err(error) = maker(&["-V"], Stdio::null()) {
        return lacks(
            format!("`{MAKER}`, which cannot be started: {error}"),
            "install e2fsprogs (apt install e2fsprogs), or add /usr/sbin to PATH",
        );
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open(loop_device::CONTROL) {
        return lacks(format!("loop devices; {}: {error}", loop_device::CONTROL), "modprobe loop; a container must be given the devices");
    }
    match fs::read_to_string("/proc/filesystems").unwrap_or_default().lines().any(|line| line.trim() == "ext4") {
        true => Ok(()),
        false => lacks("ext4, which this kernel has not loaded".into(), "modprobe ext4"),
    }
}

/// Makes it, and hands it out mounted nowhere yet. Its root is that of the sandbox.
pub(super) fn make(disk: &Disk, identity: Identity) -> Result<OwnedFd, StepError> {
    let file = nameless(&disk.folder.join("disk"), size(disk))?;
    format(&file, disk)?;
    let (device, path) = loop_device::attach(file.as_fd()).at(|| "attach the run's disk to a loop device".into())?;
    let mount = mount(&path, disk.executable).at(|| format!("mount the run's disk ({})", path.display()))?;
    // From here on the mount alone holds the device, and the device the file.
    drop((device, file));
    let at = || "size the run's disk".to_owned();
    take_what_is_too_much(&mount, disk).at(at)?;
    give_to_sandbox(&mount, identity).at(at)?;
    Ok(mount)
}

fn entries(disk: &Disk) -> u64 {
    disk.files.saturating_add(disk.own).saturating_add(KEPT_ENTRIES)
}

/// Bytes of the file: what was granted, the tables, and a reserve of the kernel's own (2 %).
fn size(disk: &Disk) -> u64 {
    let granted = disk.bytes.saturating_add(disk.own * BLOCK).saturating_add(entries(disk).saturating_mul(ENTRY));
    let size = granted.saturating_add(granted / 32).saturating_add(SPARE).max(entries(disk).saturating_mul(BYTES_PER_ENTRY));
    size.next_multiple_of(BLOCK)
}

/// A sparse file that nothing but its descriptor leads to.
fn nameless(path: &Path, bytes: u64) -> Result<File, StepError> {
    let at = || format!("make {}", path.display());
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).at(at)?;
    fs::remove_file(path).at(at)?;
    file.set_len(bytes).at(|| format!("make {} of {bytes} bytes", path.display()))?;
    Ok(file)
}

fn format(file: &File, disk: &Disk) -> Result<(), StepError> {
    let entries = entries(disk).to_string();
    let arguments = [
        ["-t", "ext4", "-b", "4096", "-I", "256", "-m", "0"].as_slice(),
        &["-N", &entries, "-O", FEATURES, "-E", "lazy_itable_init=1,nodiscard", "-q", "-F", "/proc/self/fd/0"],
    ]
    .concat();
    let made = file.try_clone().and_then(|file| maker(&arguments, file.into())).at(|| format!("start {MAKER}"))?;
    match made.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&made.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
            Err(StepError { step: format!("make a file system for the run ({MAKER} said: {said})"), errno: Errno::IO })
        }
    }
}

/// The tool is found as the caller would find it.
#[expect(clippy::disallowed_methods, reason = "the one tool of the host that the engine needs, as root")]
fn maker(arguments: &[&str], file: Stdio) -> std::io::Result<Output> {
    Command::new(MAKER).args(arguments).env_remove("MKE2FS_CONFIG").env("LC_ALL", "C").stdin(file).stdout(Stdio::null()).output()
}

fn mount(device: &Path, executable: bool) -> Result<OwnedFd, Errno> {
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", device)?;
    // Nothing of it has to survive a power cut, and tables that are not used need not be written.
    for option in ["noinit_itable", "nobarrier"] {
        fsconfig_set_flag(context.as_fd(), option)?;
    }
    fsconfig_create(context.as_fd())?;
    let exec = if executable { MountAttrFlags::empty() } else { MountAttrFlags::MOUNT_ATTR_NOEXEC };
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | exec)
}

/// Files first, since their names take blocks.
fn take_what_is_too_much(mount: &OwnedFd, disk: &Disk) -> Result<(), Errno> {
    const TAKEN: &str = "taken";
    mkdirat(mount, TAKEN, Mode::from_raw_mode(0o700))?;
    let folder = openat(mount, TAKEN, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let new = |name: &str| openat(&folder, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
    let bytes = new("bytes")?;
    let too_many = fstatfs(mount)?.f_ffree.saturating_sub(disk.files.saturating_add(disk.own));
    (0..too_many).try_for_each(|number| new(&number.to_string()).map(drop))?;
    let free = fstatfs(mount)?.f_bavail * BLOCK;
    match free.saturating_sub(disk.bytes.saturating_add(disk.own * BLOCK)) / BLOCK * BLOCK {
        0 => Ok(()),
        too_much => fallocate(&bytes, FallocateFlags::empty(), 0, too_much),
    }
}

fn give_to_sandbox(mount: &OwnedFd, identity: Identity) -> Result<(), Errno> {
    let Identity::Range { first } = identity else { return Err(Errno::INVAL) };
    chownat(mount, ".", Some(Uid::from_raw(first)), Some(Gid::from_raw(first)), rustix::fs::AtFlags::empty())?;
    // What was written so far is on the device: the host's disk has room for it, or this says so.
    let root = openat(mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::syncfs(&root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskForm;

    fn disk(bytes: u64, files: u64) -> Disk {
        Disk { folder: "/x".into(), form: DiskForm::FileSystem, bytes, files, own: 4, executable: true }
    }

    #[test]
    fn the_file_has_room_for_tables_and_never_overflows() {
        assert!(size(&disk(1 << 20, 64)) > (1 << 20) + 64 * ENTRY);
        assert!(size(&disk(8 << 20, 200_000)) >= 200_000 * BYTES_PER_ENTRY);
        assert_eq!(size(&disk(5, 1)) % BLOCK, 0);
        let most = std::panic::catch_unwind(|| size(&disk(1 << 60, u64::from(u32::MAX))));
        assert!(most.is_ok());
    }
}
