//! A plan as init needs it: every word for people becomes paths, flags and numbers as the kernel takes them.

use ringfence_wire::{Act, Blueprint, Copy, Mount, Setting};
use rustix::mount::MountFlags;
use rustix::thread::CapabilitySet;

use crate::plan::{Access, Identity, PathRule, Plan, ProcessLimit, Step, Sysctl, Transport};
use crate::source::{READ_ONLY, WRITABLE};
use crate::text::OsText;

/// What init keeps as root: to start commands under the agent's id, and to end them.
const KEPT: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::KILL);

/// Turns a plan into what init does. `landlock` is the version that the kernel has; the least one was checked before.
pub(crate) fn blueprint(plan: &Plan, landlock: u32) -> Blueprint {
    let has_own_ids = matches!(plan.identity, Identity::Range { .. });
    let handled = handled(landlock);
    Blueprint {
        // As root the supervisor opens them: init could not see them.
        sources: if has_own_ids { Vec::new() } else { sources(plan) },
        acts: plan.steps.iter().map(|step| act(step, plan)).collect(),
        handles: handles(plan),
        settings: plan.sysctls.iter().map(setting).collect(),
        kept: if has_own_ids { KEPT.bits() } else { 0 },
        ids: has_own_ids.then_some((plan.account.uid, plan.account.gid)),
        limits: plan.process_limits.iter().map(|(limit, value)| (resource(*limit), *value)).collect(),
        handled,
        rules: plan.path_rules.iter().map(|PathRule { path, access }| (bytes(path), rights(*access) & handled)).collect(),
        filter: crate::seccomp::compile(&plan.filter),
        is_inits_filter: plan.filter.processes,
        wall_ms: plan.wall_ms,
    }
}

/// The workspace, the scratch file system, the root, and the changes where the plan has them.
fn handles(plan: &Plan) -> Vec<Vec<u8>> {
    let workspace = format!("root{}", plan.workspace);
    [Some(workspace.as_str()), Some("scratch"), Some("root"), plan.changes.as_deref()].into_iter().flatten().map(bytes).collect()
}

/// Folders of the host with the attributes of their mounts; storage on disk is the last of them.
fn sources(plan: &Plan) -> Vec<(Vec<u8>, u64)> {
    let folders = plan.sources.iter().map(|source| (path_bytes(&source.path), READ_ONLY));
    let exec = |executable: bool| if executable { 0 } else { libc::MOUNT_ATTR_NOEXEC };
    folders.chain(plan.disk().map(|disk| (path_bytes(&disk.shown()), WRITABLE | exec(disk.executable)))).collect()
}

fn act(step: &Step, plan: &Plan) -> Act {
    let agent = (plan.account.uid, plan.account.gid);
    match step {
        Step::Tree { source, at } => Act::Attach { source: *source as u32, at: bytes(at) },
        Step::Folder { at, mode, is_agents } => Act::Folder { at: bytes(at), mode: *mode, owner: is_agents.then_some(agent) },
        Step::Tmpfs { at, bytes, files, executable } => {
            new_mount("tmpfs", at, exec_flag(*executable), &format!("size={bytes},nr_inodes={files},mode=755"))
        }
        Step::Disk { at, .. } => Act::Attach { source: plan.sources.len() as u32, at: bytes(at) },
        Step::Union { at, layers, executable } => {
            new_mount("overlay", at, MountFlags::RDONLY | exec_flag(*executable), &format!("userxattr,lowerdir={}", layers.join(":")))
        }
        Step::View { at, lower, upper, work, executable } => {
            let options = format!("userxattr,lowerdir={lower},upperdir={upper},workdir={work}");
            new_mount("overlay", at, exec_flag(*executable), &options)
        }
        Step::Copy { from, to, hidden, replaced } => Act::Copy(Copy {
            from: bytes(from),
            to: bytes(to),
            owner: agent,
            hidden: hidden.iter().map(|path| path.as_bytes().to_vec()).collect(),
            replaced: replaced.iter().map(|(path, text)| (path.as_bytes().to_vec(), bytes(text))).collect(),
        }),
        Step::Veil { layer, below, hidden, replaced } => veil(layer, below, hidden, replaced, agent),
        // The scratch file system is mounted with the same answer to "may programs be executed".
        Step::Bind { from, to, .. } => Act::Bind { from: bytes(from), to: bytes(to) },
        // Writing to a device still works; changing its times or owner does not.
        Step::Device { name } => Act::Device {
            from: bytes(&format!("/dev/{name}")),
            to: bytes(&format!("root/dev/{name}")),
            attributes: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
        },
        Step::Link { at, to } => Act::Link { at: bytes(at), to: bytes(to) },
        Step::Terminals { at, most } => Act::Mount(Mount {
            flags: (MountFlags::NOSUID | MountFlags::NOEXEC).bits(),
            ..mount("devpts", at, &format!("newinstance,ptmxmode=0666,mode=620,max={most}"))
        }),
        Step::Proc { at } => Act::Mount(Mount {
            flags: (MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC).bits(),
            older_options: Some(bytes("hidepid=2")), // before Linux 5.8
            ..mount("proc", at, "hidepid=invisible")
        }),
        Step::Mask { at } => Act::Cover { by: bytes("root/dev/null"), at: bytes(at) },
        // The kernel's random names are of the same form.
        Step::BootId { at } => Act::Settle {
            from: bytes("root/proc/sys/kernel/random/uuid"),
            kept: bytes("boot_id"),
            at: bytes(at),
            attributes: READ_ONLY | libc::MOUNT_ATTR_NOEXEC,
        },
        Step::ReadOnly { at } => {
            let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
            Act::Remount { at: bytes(at), flags: flags.bits() }
        }
        Step::HostName { name } => Act::HostName(bytes(name)),
        Step::Loopback => Act::Loopback,
        Step::Address { number, address, bits } => Act::Address { number: *number, address: address.octets(), bits: *bits },
        Step::Door { door } => {
            Act::Door { takes_connections: door.transport == Transport::Stream, address: door.address.octets(), port: door.port }
        }
        Step::Enter => Act::Enter(bytes("root")),
    }
}

fn new_mount(kind: &str, at: &str, flags: MountFlags, options: &str) -> Act {
    Act::Mount(Mount { flags: (MountFlags::NOSUID | MountFlags::NODEV | flags).bits(), ..mount(kind, at, options) })
}

fn mount(kind: &str, at: &str, options: &str) -> Mount {
    Mount { kind: bytes(kind), at: bytes(at), flags: 0, options: bytes(options), older_options: None }
}

fn veil(layer: &str, below: &str, hidden: &[OsText], replaced: &[(OsText, String)], owner: (u32, u32)) -> Act {
    Act::Veil(ringfence_wire::Veil {
        layer: bytes(layer),
        below: bytes(below),
        owner,
        hidden: hidden.iter().map(|path| path.as_bytes().to_vec()).collect(),
        replaced: replaced.iter().map(|(path, text)| (path.as_bytes().to_vec(), bytes(text))).collect(),
    })
}

fn setting(sysctl: &Sysctl) -> Setting {
    Setting { path: bytes(&format!("/proc/sys/{}", sysctl.name)), value: bytes(&sysctl.value), is_required: sysctl.is_required }
}

fn exec_flag(executable: bool) -> MountFlags {
    if executable { MountFlags::empty() } else { MountFlags::NOEXEC }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn path_bytes(path: &std::path::Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

fn resource(limit: ProcessLimit) -> u32 {
    match limit {
        ProcessLimit::Processes => libc::RLIMIT_NPROC,
        ProcessLimit::FileSize => libc::RLIMIT_FSIZE,
        ProcessLimit::OpenFiles => libc::RLIMIT_NOFILE,
        ProcessLimit::Core => libc::RLIMIT_CORE,
        ProcessLimit::Cpu => libc::RLIMIT_CPU,
        ProcessLimit::LockedMemory => libc::RLIMIT_MEMLOCK,
        ProcessLimit::Data => libc::RLIMIT_DATA,
        ProcessLimit::PendingSignals => libc::RLIMIT_SIGPENDING,
        ProcessLimit::MessageQueues => libc::RLIMIT_MSGQUEUE,
        ProcessLimit::RealTimePriority => libc::RLIMIT_RTPRIO,
        ProcessLimit::Nice => libc::RLIMIT_NICE,
    }
}

/// Landlock's rights over paths, in the order of their bits (`LANDLOCK_ACCESS_FS_*`).
mod right {
    pub(super) const EXECUTE: u64 = 1;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_FOLDER: u64 = 1 << 3;
    pub(super) const REFER: u64 = 1 << 13;
    pub(super) const TRUNCATE: u64 = 1 << 14;
    pub(super) const DEVICE_IOCTL: u64 = 1 << 15;
    pub(super) const ALL: u64 = (1 << 16) - 1;
}

/// The rights that a version of Landlock knows.
fn handled(version: u32) -> u64 {
    let unknown = [(2, right::REFER), (3, right::TRUNCATE), (5, right::DEVICE_IOCTL)].into_iter().filter(|(since, _)| version < *since);
    unknown.fold(right::ALL, |rights, (_, right)| rights & !right)
}

fn rights(access: Access) -> u64 {
    let read = right::READ_FILE | right::READ_FOLDER;
    match access {
        Access::List => right::READ_FOLDER,
        Access::Read => read,
        Access::Execute => read | right::EXECUTE,
        Access::Program => right::READ_FILE | right::EXECUTE,
        Access::Device => read | right::WRITE_FILE | right::TRUNCATE | right::DEVICE_IOCTL,
        Access::Write => right::ALL & !right::EXECUTE,
        Access::WriteExecute => right::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_that_a_kernel_does_not_know_are_left_out() {
        assert_eq!(handled(1), (1 << 13) - 1);
        assert_eq!(handled(2), (1 << 14) - 1);
        assert_eq!(handled(4), (1 << 15) - 1);
        assert_eq!(handled(9), right::ALL);
    }
}
