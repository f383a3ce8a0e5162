//! Performs the acts: one loop, one small function an act. Everything happens in the sandbox's own namespaces.

use alloc::vec::Vec;

use ringfence_wire::{Act, Blueprint, Mount, Veil};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, mkdirat, mknodat, open, openat, statat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{chdir, pivot_root};

use crate::failure::{At, Failure};
use crate::sys;
use crate::sys::mount::Mounted;

/// Where the stage is mounted while the sandbox is built: a folder that every host has, hidden in this mount namespace only.
const STAGE: &str = "/usr";

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// Builds the view, and answers with descriptors of the folders that are handed out, then of the doors.
pub(crate) fn perform(blueprint: &Blueprint, given: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Failure> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).at("make mounts private")?;
    let sources = if blueprint.sources.is_empty() { given } else { open_sources(blueprint)? };
    stage().at("mount the stage")?;
    let mut view = View { sources: sources.into_iter().map(Some).collect(), doors: Vec::new() };
    let mut handles = Vec::new();
    for (number, act) in blueprint.acts.iter().enumerate() {
        if matches!(act, Act::Enter(_)) {
            handles = open_handles(blueprint)?;
        }
        view.perform(act).at_item("step", number)?;
    }
    handles.append(&mut view.doors);
    Ok(handles)
}

/// As an ordinary user the host's folders are opened here, with the caller's own eyes.
fn open_sources(blueprint: &Blueprint) -> Result<Vec<OwnedFd>, Failure> {
    let open = |(path, attributes): &(Vec<u8>, u64)| {
        let tree = open_tree(CWD, path.as_slice(), CLONE)?;
        sys::mount::set_attributes(Mounted::Nowhere(tree.as_fd()), *attributes)?;
        Ok(tree)
    };
    blueprint.sources.iter().enumerate().map(|(number, source)| open(source).at_item("open source", number)).collect()
}

fn stage() -> Result<(), Errno> {
    mount("tmpfs", STAGE, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"size=8m,nr_inodes=8192,mode=755")?;
    chdir(STAGE)
}

fn open_handles(blueprint: &Blueprint) -> Result<Vec<OwnedFd>, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |path: &Vec<u8>| open(path.as_slice(), flags, Mode::empty());
    blueprint.handles.iter().enumerate().map(|(number, path)| open(path).at_item("open handle", number)).collect()
}

struct View {
    sources: Vec<Option<OwnedFd>>,
    doors: Vec<OwnedFd>,
}

impl View {
    fn perform(&mut self, act: &Act) -> Result<(), Errno> {
        match act {
            Act::Attach { source, at } => self.attach(*source, at),
            Act::Folder { at, mode, owner } => folder(at, *mode, *owner),
            Act::Mount(new) => mount_new(new),
            Act::Copy(copy) => crate::copy::perform(copy),
            Act::Veil(veil) => draw(veil),
            Act::Bind { from, to } => mount_bind(from.as_slice(), to.as_slice()),
            Act::Device { from, to, attributes } => device(from, to, *attributes),
            Act::Link { at, to } => symlinkat(to.as_slice(), CWD, at.as_slice()),
            Act::Cover { by, at } => cover(by, at),
            Act::Settle { from, kept, at, attributes } => settle(from, kept, at, *attributes),
            Act::Remount { at, flags } => rustix::mount::mount_remount(at.as_slice(), MountFlags::from_bits_retain(*flags), c""),
            Act::HostName(name) => rustix::system::sethostname(name).and_then(|()| rustix::system::setdomainname(b"")),
            Act::Loopback => sys::loopback::bring_up(),
            Act::Address { number, address, bits } => sys::loopback::add_address(*number, *address, *bits),
            Act::Door { takes_connections, address, port } => {
                self.doors.push(door(*takes_connections, SocketAddrV4::new((*address).into(), *port))?);
                Ok(())
            }
            Act::Enter(root) => enter(root),
        }
    }

    fn attach(&mut self, source: u32, at: &[u8]) -> Result<(), Errno> {
        let tree = self.sources.get_mut(source as usize).and_then(Option::take).ok_or(Errno::INVAL)?;
        make_folders(at)?;
        move_mount(&tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    }
}

/// Connections that nobody has taken yet; the kernel bounds it further (`net.core.somaxconn`).
const BACKLOG: i32 = 1024;

fn door(takes_connections: bool, address: SocketAddrV4) -> Result<OwnedFd, Errno> {
    let kind = if takes_connections { SocketType::STREAM } else { SocketType::DGRAM };
    let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &address)?;
    if takes_connections {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// The host's device is still there: the stage covers another folder.
fn device(from: &[u8], to: &[u8], attributes: u64) -> Result<(), Errno> {
    openat(CWD, to, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
    mount_bind(from, to)?;
    sys::mount::set_attributes(Mounted::At(to), attributes)
}

fn folder(at: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Result<(), Errno> {
    make_folders(at)?;
    chmodat(CWD, at, Mode::from_raw_mode(mode), AtFlags::empty())?;
    owner.map_or(Ok(()), |owner| give(at, owner))
}

/// Makes a folder and those above it that are missing.
pub(crate) fn make_folders(at: &[u8]) -> Result<(), Errno> {
    match mkdirat(CWD, at, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            make_folders(parent(at).ok_or(Errno::NOENT)?)?;
            mkdirat(CWD, at, Mode::from_raw_mode(0o755))
        }
        Err(errno) => Err(errno),
    }
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash])
}

fn give(at: &[u8], (uid, gid): (u32, u32)) -> Result<(), Errno> {
    chownat(CWD, at, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)
}

fn mount_new(new: &Mount) -> Result<(), Errno> {
    make_folders(&new.at)?;
    let with = |options: &[u8]| {
        let options = alloc::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
        mount(new.kind.as_slice(), new.at.as_slice(), new.kind.as_slice(), MountFlags::from_bits_retain(new.flags), options.as_c_str())
    };
    match (with(&new.options), &new.older_options) {
        (Err(Errno::INVAL), Some(older)) => with(older),
        (done, _) => done,
    }
}

fn cover(by: &[u8], at: &[u8]) -> Result<(), Errno> {
    match mount_bind(by, at) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

fn settle(from: &[u8], kept: &[u8], at: &[u8], attributes: u64) -> Result<(), Errno> {
    let source = open(from, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0u8; 256];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&source, &mut text))?;
    let file = open(kept, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o444))?;
    write_all(&file, text.get(..length).ok_or(Errno::INVAL)?)?;
    mount_bind(kept, at)?;
    sys::mount::set_attributes(Mounted::At(at), attributes)
}

fn draw(veil: &Veil) -> Result<(), Errno> {
    make_folders(&veil.layer)?;
    give(&veil.layer, veil.owner)?;
    for path in &veil.hidden {
        make_parents(veil, path)?;
        mknodat(CWD, join(&veil.layer, path).as_slice(), FileType::CharacterDevice, Mode::empty(), 0)?;
    }
    for (path, text) in &veil.replaced {
        make_parents(veil, path)?;
        let at = join(&veil.layer, path);
        let file = open(at.as_slice(), OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
        write_all(&file, text)?;
        give(&at, veil.owner)?;
    }
    Ok(())
}

/// Makes the folders above `path` in the layer, with the permissions that they have below; where they are not there anyone may read them.
fn make_parents(veil: &Veil, path: &[u8]) -> Result<(), Errno> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends {
        let at = join(&veil.layer, &path[..end]);
        match mkdirat(CWD, at.as_slice(), Mode::from_raw_mode(0o700)) {
            Ok(()) => {
                let mode = match statat(CWD, join(&veil.below, &path[..end]).as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(below) => below.st_mode & 0o777,
                    Err(Errno::NOENT) => 0o755,
                    Err(errno) => return Err(errno),
                };
                chmodat(CWD, at.as_slice(), Mode::from_raw_mode(mode), AtFlags::empty())?;
                give(&at, veil.owner)?;
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn join(folder: &[u8], path: &[u8]) -> Vec<u8> {
    [folder, path].join(&b'/')
}

/// Writes all of the bytes.
pub(crate) fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(file, bytes))?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Both roots are stacked on one place, then the old one is taken away: no folder for it is needed.
fn enter(root: &[u8]) -> Result<(), Errno> {
    chdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}
