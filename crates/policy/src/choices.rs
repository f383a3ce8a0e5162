//! The ordered choices that capabilities are made of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An ordered choice whose smaller value is the smaller capability.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, the smallest first.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that a person writes.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|v| v.word() == text)
                    .ok_or_else(|| format!("`{text}` is none of {}", Self::ALL.iter().map(|v| v.word()).collect::<Vec<_>>().join(", ")))
            }
        }
    };
}
pub(crate) use choice;

choice!(
    /// Whether anything can be executed at all.
    Execution {
        /// No execution surface: the agent has tools only.
        None = "none",
        /// Commands run inside the sandbox.
        Commands = "commands",
    }
);
choice!(
    /// Whether inputs can be given.
    Inputs {
        /// No inputs.
        None = "none",
        /// The files and folders that the request names, read-only.
        Named = "named",
    }
);
choice!(
    /// Whether a project can be given as the workspace.
    Project {
        /// The workspace starts empty.
        None = "none",
        /// A copy-on-write view; the project itself is never written.
        View = "view",
    }
);
choice!(
    /// Where what a run writes may be kept. Memory is the smaller one: what is written counts as memory as well, and no disk of the host is touched.
    Storage {
        /// In memory only.
        Memory = "memory",
        /// On disk, where the request says so; in memory otherwise.
        Disk = "disk",
    }
);
choice!(
    /// Whether what a run writes may outlive it, as the state that another run begins with.
    State {
        /// It is gone with the run.
        None = "none",
        /// It is kept where the request names a state, or where a session is kept by whoever has it.
        Named = "named",
    }
);
choice!(
    /// How packages of one language may be installed.
    PackageMode {
        /// Not at all.
        None = "none",
        /// Only what a lock file with hashes names.
        Locked = "locked",
        /// Only what the operator's list names.
        Allowlist = "allowlist",
        /// Anything: someone's conscious choice for low-risk work.
        Open = "open",
    }
);
choice!(
    /// Whether a rule may stand for more than one host.
    Wildcards {
        /// Every host is named.
        None = "none",
        /// `*.example.com` is a rule.
        Any = "any",
    }
);
choice!(
    /// Which programs the command may start.
    Spawn {
        /// No other process: the command and its threads.
        None = "none",
        /// Programs of the image, none that the run itself wrote.
        Own = "own",
        /// Any program that the sandbox can see, also one that the run wrote or compiled.
        Any = "any",
    }
);
choice!(
    /// How much of the kernel can be called.
    Kernel {
        /// The default filter.
        Default = "default",
        /// The default filter and `ptrace` among the run's own processes.
        Debug = "debug",
    }
);
choice!(
    /// How strongly the sandbox is isolated; a stronger tier is a smaller capability.
    Tier {
        /// Namespaces, cgroups, Landlock and a system call filter on the host's kernel.
        Process = "process",
        /// A user-space kernel.
        Gvisor = "gvisor",
        /// A virtual machine with a kernel of its own.
        Microvm = "microvm",
    }
);
choice!(
    /// Who holds a limit.
    Grade {
        /// The kernel, for each process alone: many processes together can exceed it.
        PerProcess = "per-process",
        /// The supervisor, which sums the tree and ends it: short overshoots are possible.
        Watched = "watched",
        /// The kernel, for the whole tree.
        Kernel = "kernel",
    }
);

choice!(
    /// How much harm it does if what a run sees becomes known. A higher one is a smaller capability: it may ask for a stronger tier.
    Sensitivity {
        /// Anyone may know it.
        Public = "public",
        /// Known inside an organisation.
        Internal = "internal",
        /// Harm is done if it becomes known.
        Confidential = "confidential",
        /// Great harm is done if it becomes known.
        Restricted = "restricted",
    }
);

impl Sensitivity {
    /// What a record from before there was a choice means.
    pub(crate) fn lowest() -> Self {
        Self::Public
    }

    pub(crate) fn is_lowest(&self) -> bool {
        *self == Self::lowest()
    }
}

impl State {
    /// What a record from before there was a choice means.
    pub(crate) fn smallest() -> Self {
        Self::None
    }

    pub(crate) fn is_smallest(&self) -> bool {
        *self == Self::smallest()
    }
}

impl Storage {
    /// What a record from before there was a choice means.
    pub(crate) fn smallest() -> Self {
        Self::Memory
    }

    pub(crate) fn is_smallest(&self) -> bool {
        *self == Self::smallest()
    }
}
