//! What init has to do before the first command.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// A path or a text as the kernel takes it, without the NUL at its end.
type Bytes = Vec<u8>;

/// A sandbox as init needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blueprint {
    /// Folders of the host for init to open itself, with the attributes of their mounts (`MOUNT_ATTR_*`); empty where the supervisor sends them opened.
    pub sources: Vec<(Bytes, u64)>,
    /// What is done, in order. The last one but `Enter` sees the stage; see [`Act`].
    pub acts: Vec<Act>,
    /// Folders of the stage that are handed to the supervisor before the host's tree is left.
    pub handles: Vec<Bytes>,
    /// Kernel settings, the last thing before commands.
    pub settings: Vec<Setting>,
    /// Capabilities that init keeps, as bits.
    pub kept: u64,
    /// User and group id of commands; none where they have init's own.
    pub ids: Option<(u32, u32)>,
    /// Limits of each process: the kernel's `RLIMIT_*` number and the value.
    pub limits: Vec<(u32, u64)>,
    /// Rights that Landlock handles, `LANDLOCK_ACCESS_FS_*`.
    pub handled: u64,
    /// Paths and what may be done below them.
    pub rules: Vec<(Bytes, u64)>,
    /// The system call filter.
    pub filter: Vec<Instruction>,
    /// Init puts the filter in force for itself, and commands inherit it: the kernel makes it once and not for each. Not where it lets nobody fork.
    pub is_inits_filter: bool,
    /// Milliseconds from now after which init ends.
    pub wall_ms: u64,
}

/// One act. Paths are relative to the stage, a memory file system that is left behind by `Enter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Attach an opened source.
    Attach {
        /// Which.
        source: u32,
        /// Where.
        at: Bytes,
    },
    /// Make a folder and those above it.
    Folder {
        /// Where.
        at: Bytes,
        /// Permission bits.
        mode: u32,
        /// Its owner, if not init.
        owner: Option<(u32, u32)>,
    },
    /// Make a folder, and mount a new file system on it.
    Mount(Mount),
    /// Copy a whole tree.
    Copy(Copy),
    /// Fill an overlay's layer.
    Veil(Veil),
    /// Show a folder of the stage elsewhere, with the flags of the mount that it is in.
    Bind {
        /// From.
        from: Bytes,
        /// To.
        to: Bytes,
    },
    /// Show one of the host's devices.
    Device {
        /// The host's path.
        from: Bytes,
        /// Where.
        to: Bytes,
        /// `MOUNT_ATTR_*` that are set.
        attributes: u64,
    },
    /// Make a symbolic link.
    Link {
        /// Where.
        at: Bytes,
        /// What it says.
        to: Bytes,
    },
    /// Put something harmless over a file, if the file is there.
    Cover {
        /// What is seen instead.
        by: Bytes,
        /// Where.
        at: Bytes,
    },
    /// Keep what a file says now, and show that over another file.
    Settle {
        /// A short file that says something else each time.
        from: Bytes,
        /// Where it is kept.
        kept: Bytes,
        /// Where it is shown.
        at: Bytes,
        /// `MOUNT_ATTR_*` that are set.
        attributes: u64,
    },
    /// Change the flags of a mount.
    Remount {
        /// Where.
        at: Bytes,
        /// `MS_*`.
        flags: u32,
    },
    /// Set the host name, and clear the domain.
    HostName(Bytes),
    /// Bring the loopback interface up.
    Loopback,
    /// Give the loopback interface one more address, with the whole range that it is in.
    Address {
        /// Which address this is, from 1.
        number: u32,
        /// The address.
        address: [u8; 4],
        /// Bits of the range's prefix.
        bits: u8,
    },
    /// Make a socket, to be handed to the supervisor. It belongs to this network namespace wherever it is used.
    Door {
        /// Whether it takes connections; single datagrams otherwise.
        takes_connections: bool,
        /// Its address.
        address: [u8; 4],
        /// Its port.
        port: u16,
    },
    /// Make the folder of that name the root, and leave everything else behind.
    Enter(Bytes),
}

/// A new file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Its type.
    pub kind: Bytes,
    /// Where.
    pub at: Bytes,
    /// `MS_*`.
    pub flags: u32,
    /// Options; the second ones are tried where the kernel does not know the first.
    pub options: Bytes,
    /// Options for older kernels.
    pub older_options: Option<Bytes>,
}

/// What is copied, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    /// The folder that is copied.
    pub from: Bytes,
    /// The folder that holds the copy.
    pub to: Bytes,
    /// Whose the copy is.
    pub owner: (u32, u32),
    /// Paths that are left out.
    pub hidden: Vec<Bytes>,
    /// Paths and what is in them instead.
    pub replaced: Vec<(Bytes, Bytes)>,
}

/// Marks that hide paths of the layer below, and files that take the place of others (overlayfs(5): a mark is a character device 0:0).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Veil {
    /// The layer.
    pub layer: Bytes,
    /// The layer below.
    pub below: Bytes,
    /// Whose the layer is.
    pub owner: (u32, u32),
    /// Paths that are not shown.
    pub hidden: Vec<Bytes>,
    /// Paths and what is in them instead.
    pub replaced: Vec<(Bytes, Bytes)>,
}

/// A file below `/proc/sys` and what is written to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The file.
    pub path: Bytes,
    /// The value.
    pub value: Bytes,
    /// Whether the sandbox may go without it.
    pub is_required: bool,
}

/// One instruction of a filter, as `struct sock_filter` of bpf(4) has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Instruction {
    /// What is done.
    pub code: u16,
    /// How far to jump if true.
    pub jt: u8,
    /// How far to jump if false.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}
