//! A sandbox as data: what is mounted where, which ids, which limits, which filter. [`compile`](crate::compile()) decides it, `--explain` prints
//! it, and one loop inside the sandbox performs it.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::disk::{Disk, DiskForm};
use crate::seccomp::FilterSpec;
use crate::text::OsText;

/// How user ids inside stand for ids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// As root: 65,536 host ids of this sandbox alone.
    Range {
        /// The host id that 0 stands for.
        first: u32,
    },
    /// As an ordinary user: one id, the caller's own.
    Single {
        /// The caller's user id.
        uid: u32,
        /// The caller's group id.
        gid: u32,
    },
}

/// Ids in a sandbox's range.
pub(crate) const RANGE: u32 = 65_536;

/// Whom commands run as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// User id inside.
    pub uid: u32,
    /// Group id inside.
    pub gid: u32,
    /// User name.
    pub name: String,
    /// Home folder.
    pub home: String,
}

/// A folder of the host that becomes a layer of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it is on the host.
    pub path: PathBuf,
    /// The owner whose files appear as the agent's own (an id-mapped mount), as root.
    pub owner: Option<Owner>,
}

/// Ids of the host that an id map replaces by the agent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The one user that owns the files.
    pub uid: u32,
    /// Groups of the files; the first appears as the agent's.
    pub gids: Vec<u32>,
}

/// One act inside. Paths are relative to the stage, a memory file system that is left behind by `Enter`; the new root is built in `root`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Attach source number `source`.
    Tree {
        /// Index in [`Plan::sources`].
        source: usize,
        /// Where.
        at: String,
    },
    /// Make a folder.
    Folder {
        /// Where.
        at: String,
        /// Permission bits.
        mode: u32,
        /// Owned by the agent.
        is_agents: bool,
    },
    /// A memory file system.
    Tmpfs {
        /// Where.
        at: String,
        /// Most bytes.
        bytes: u64,
        /// Most files.
        files: u64,
        /// Programs on it may be executed.
        executable: bool,
    },
    /// Storage on disk.
    Disk {
        /// Where.
        at: String,
        /// What it is.
        disk: Disk,
    },
    /// A read-only union of layers, the uppermost first.
    Union {
        /// Where.
        at: String,
        /// Layers.
        layers: Vec<String>,
        /// Programs on it may be executed.
        executable: bool,
    },
    /// A writable view of `lower`; writes go to `upper`.
    View {
        /// Where.
        at: String,
        /// What is seen.
        lower: String,
        /// Where changes go.
        upper: String,
        /// The kernel's scratch folder.
        work: String,
        /// Programs on it may be executed.
        executable: bool,
    },
    /// Copy a whole tree: the view where no writable union can be had.
    Copy {
        /// From.
        from: String,
        /// To.
        to: String,
        /// Paths left out.
        hidden: Vec<OsText>,
        /// Files put in place of what is there.
        replaced: Vec<(OsText, String)>,
    },
    /// Hide paths of `below` by marks in `layer`, and put harmless files in place of others.
    Veil {
        /// The layer that holds the marks.
        layer: String,
        /// The layer that is covered.
        below: String,
        /// Paths that are not shown.
        hidden: Vec<OsText>,
        /// Files put in place of what is there.
        replaced: Vec<(OsText, String)>,
    },
    /// Show a folder of the stage elsewhere.
    Bind {
        /// From.
        from: String,
        /// To.
        to: String,
        /// Programs on it may be executed.
        executable: bool,
    },
    /// A device node of the host's.
    Device {
        /// Its name in `/dev`.
        name: String,
    },
    /// A symbolic link.
    Link {
        /// Where.
        at: String,
        /// What it says.
        to: String,
    },
    /// A new set of pseudo terminals.
    Terminals {
        /// Where.
        at: String,
        /// How many at most.
        most: u32,
    },
    /// A new `/proc` of this process namespace, hiding other users' processes.
    Proc {
        /// Where.
        at: String,
    },
    /// Cover a file by an empty one, if it is there.
    Mask {
        /// Where.
        at: String,
    },
    /// Let the kernel's name for its boot be one of this sandbox's own: the host's would tell whoever reads it in two sandboxes that they are on one.
    BootId {
        /// Where.
        at: String,
    },
    /// Make a mount read-only.
    ReadOnly {
        /// Where.
        at: String,
    },
    /// The host name inside.
    HostName {
        /// The name.
        name: String,
    },
    /// Bring the loopback interface up.
    Loopback,
    /// Give the loopback interface one more address, with its range.
    Address {
        /// Which of them this is, from 1.
        number: u32,
        /// The address.
        address: Ipv4Addr,
        /// Bits of the range's prefix.
        bits: u8,
    },
    /// Make a socket and hand it out.
    Door {
        /// Which.
        door: Door,
    },
    /// Make `root` the root, and leave the host's tree and the stage behind.
    Enter,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree { source, at } => write!(f, "attach source {source} at {at}"),
            Self::Folder { at, mode, is_agents } => write!(f, "folder {at} {mode:o}{}", if *is_agents { " of the agent" } else { "" }),
            Self::Tmpfs { at, bytes, files, executable } => {
                write!(f, "memory file system {at}: {bytes} bytes, {files} files{}", exec_word(*executable))
            }
            Self::Disk { at, disk } => {
                let form = match disk.form {
                    DiskForm::FileSystem => "a file system of its own, held by the kernel",
                    DiskForm::Folder => "a folder, watched by the supervisor",
                };
                write!(f, "storage on disk {at}: {} bytes, {} files, {form}{}", disk.bytes, disk.files, exec_word(disk.executable))
            }
            Self::Union { at, layers, executable } => write!(f, "read-only union {at} of {}{}", layers.join(", "), exec_word(*executable)),
            Self::View { at, lower, upper, executable, .. } => {
                write!(f, "writable view {at} of {lower}, changes in {upper}{}", exec_word(*executable))
            }
            Self::Copy { from, to, hidden, .. } => write!(f, "copy {from} to {to}, leaving out {} paths", hidden.len()),
            Self::Veil { below, hidden, replaced, .. } => {
                write!(f, "hide {} paths of {below}, replace {}", hidden.len(), replaced.len())
            }
            Self::Bind { from, to, executable } => write!(f, "show {from} at {to}{}", exec_word(*executable)),
            Self::Device { name } => write!(f, "device {name}"),
            Self::Link { at, to } => write!(f, "link {at} -> {to}"),
            Self::Terminals { at, most } => write!(f, "pseudo terminals {at}, at most {most}"),
            Self::Proc { at } => write!(f, "process information {at}"),
            Self::Mask { at } => write!(f, "mask {at}"),
            Self::BootId { at } => write!(f, "a boot id of its own at {at}"),
            Self::ReadOnly { at } => write!(f, "read-only {at}"),
            Self::HostName { name } => write!(f, "host name {name}"),
            Self::Loopback => f.write_str("loopback up"),
            Self::Address { address, bits, .. } => write!(f, "loopback address {address}/{bits}"),
            Self::Door { door } => write!(f, "door {door}"),
            Self::Enter => f.write_str("enter root, leave the host's tree"),
        }
    }
}

fn exec_word(executable: bool) -> &'static str {
    if executable { "" } else { ", no programs" }
}

/// How bytes come through a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Connections.
    Stream,
    /// Single datagrams.
    Datagram,
}

/// A socket that is made inside and used outside: what connects to it inside reaches the host's side, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// How bytes come.
    pub transport: Transport,
    /// Its address inside.
    pub address: Ipv4Addr,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Stream => "tcp",
            Transport::Datagram => "udp",
        };
        write!(f, "{transport} {}:{}", self.address, self.port)
    }
}

/// The ways out of a sandbox, and what programs inside need to find them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Doors {
    /// Addresses of the loopback interface, each with the bits of its range.
    pub addresses: Vec<(Ipv4Addr, u8)>,
    /// The sockets.
    pub doors: Vec<Door>,
    /// Files by absolute path inside, in place of what the image has there.
    pub files: Vec<(String, String)>,
    /// Variables.
    pub environment: Vec<(String, String)>,
}

/// A kernel setting of the sandbox's own namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// Its path below `/proc/sys`.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether the sandbox may go without it, on kernels that do not have it.
    pub is_required: bool,
}

/// A limit that the kernel holds for each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLimit {
    /// Processes and threads of the user in this namespace.
    Processes,
    /// Size of one file, bytes.
    FileSize,
    /// Open descriptors.
    OpenFiles,
    /// Core files, bytes.
    Core,
    /// Processor time, seconds.
    Cpu,
    /// Locked memory, bytes.
    LockedMemory,
    /// Private writable memory, bytes.
    Data,
    /// Queued signals.
    PendingSignals,
    /// POSIX message queues, bytes.
    MessageQueues,
    /// Highest real-time priority.
    RealTimePriority,
    /// How far the priority can be raised.
    Nice,
}

/// What paths may be used for, by Landlock, beneath the mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// List folders.
    List,
    /// Read.
    Read,
    /// Read and execute.
    Execute,
    /// Read and execute one file.
    Program,
    /// Read and write existing files and devices.
    Device,
    /// Everything but executing.
    Write,
    /// Everything.
    WriteExecute,
}

/// One Landlock rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRule {
    /// The path inside, with all below it.
    pub path: String,
    /// What is allowed there.
    pub access: Access,
}

/// What the cgroup of the run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupLimits {
    /// Bytes of memory and swap.
    pub memory_bytes: Option<u64>,
    /// Processes and threads, init included.
    pub processes: Option<u64>,
    /// Thousandths of a processor.
    pub cpus_milli: Option<u64>,
}

/// A sandbox as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Ids.
    pub identity: Identity,
    /// Whom commands run as.
    pub account: Account,
    /// Folders of the host.
    pub sources: Vec<Source>,
    /// Acts, in order.
    pub steps: Vec<Step>,
    /// Settings of the sandbox's namespaces, the last thing before commands.
    pub sysctls: Vec<Sysctl>,
    /// Limits for each process.
    pub process_limits: Vec<(ProcessLimit, u64)>,
    /// Limits for the tree, held by a cgroup where there is one.
    pub group_limits: GroupLimits,
    /// Landlock rules.
    pub path_rules: Vec<PathRule>,
    /// System call filter.
    pub filter: FilterSpec,
    /// Variables that every command gets.
    pub environment: Vec<(String, String)>,
    /// Folder in which commands start.
    pub workspace: String,
    /// Folder of the stage that holds the changes to a project's view, to be handed out.
    pub changes: Option<String>,
    /// Wall-clock limit, held by init's own clock too.
    pub wall_ms: u64,
}

impl Plan {
    /// The doors, in the order in which they are handed out.
    pub fn doors(&self) -> impl Iterator<Item = Door> {
        self.steps.iter().filter_map(|step| if let Step::Door { door } = step { Some(*door) } else { None })
    }

    /// The run's storage, if it is on disk.
    pub fn disk(&self) -> Option<&Disk> {
        self.steps.iter().find_map(|step| if let Step::Disk { disk, .. } = step { Some(disk) } else { None })
    }
}
