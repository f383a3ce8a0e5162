//! The smaller computer.
//!
//! From a plan, which is data, to a sandbox in which commands run, and from its remains to artifacts. This crate is synchronous and Linux only; it
//! knows nothing of records, databases, networks or tools. The one folder with `unsafe` code of the whole project is `sys` here.
//!
//! In the order of a run: [`Cgroups`] and [`lease_identity`] say what the host gives, [`Image`] what is seen, [`compile()`] decides the
//! [`Plan`], [`Sandbox`] performs and supervises it, and what remains is exported.
#![deny(unsafe_code)]

mod attendance;
mod blueprint;
mod cgroup;
mod compile;
mod control;
mod creation;
mod disk;
mod files;
mod host;
mod identity;
mod image;
mod init_program;
mod launch;
mod meter;
mod output;
mod plan;
mod probe;
mod running;
mod sandbox;
mod seccomp;
mod source;
mod state;
mod stdin;
mod step;
mod sweep;
#[expect(unsafe_code, reason = "the one place for system calls that no kept crate wraps")]
mod sys;
mod text;
mod watch;
mod workspace;

pub use attendance::Occurrence;
pub use cgroup::{Cgroups, Group, GroupUsage};
pub use compile::{DiskPlace, FolderView, SandboxSpec, Veil, compile, group_limits};
pub use control::INIT_NAME;
pub use creation::{Creation, EmptySandbox, Rising};
pub use disk::{Disk, DiskForm, clear_disk};
pub use files::{FileChange, FileEntry, FileError, FileEvent, FileKind, Files, Watch};
pub use host::{Finding, Host, HostError, LEAST_LANDLOCK, can_map_ids, examine};
pub use identity::{IdentityLease, lease_identity};
pub use image::{Image, Layer};
pub use launch::SetupError;
pub use output::{Budget, Capture, Captured, Listener};
pub use plan::{Access, Account, Door, Doors, GroupLimits, Identity, Owner, PathRule, Plan, ProcessLimit, Source, Step, Sysctl, Transport};
pub use probe::{PROBE_NAME, facts, measure_outside};
pub use ringfence_wire::Fact;
pub use sandbox::{Command, CommandOutcome, End, Remains, Sandbox, Streams, Usage, Window, own_stdin};
pub use seccomp::FilterSpec;
pub use state::{Restored, Saved, StateError, Trees};
pub use stdin::Stdin;
pub use sweep::Traces;
pub use sys::signals::{stop_requested_descriptor, stop_signal};
pub use text::OsText;
pub use workspace::{
    ArtifactSink, Copied, Export, ExportLimits, ExportRefusal, Exported, GoOn, HiddenPath, PatchRequest, PatchSummary, Scan, ScanError,
    SnapshotError, Stored, collect, copy_file, copy_tree, scan, write_patch,
};
