//! Decides the plan of a sandbox from what was granted and what the host has. Nothing here touches the machine.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use ringfence_policy::{Capabilities, Kernel, LimitKey, Spawn, UserName};

use crate::cgroup::Cgroups;
use crate::disk::{Disk, DiskForm};
use crate::identity::AGENT;
use crate::image::Image;
use crate::plan::{Access, Account, Doors, GroupLimits, Identity, Owner, PathRule, Plan, ProcessLimit, Source, Step, Sysctl};
use crate::seccomp::FilterSpec;
use crate::text::OsText;

/// What is hidden from a folder's view, and what is shown in another form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Veil {
    /// Paths that are not shown.
    pub hidden: Vec<OsText>,
    /// Files whose content is replaced.
    pub replaced: Vec<(OsText, String)>,
}

/// A folder of the host as a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderView {
    /// The folder.
    pub path: PathBuf,
    /// Whose files appear as the agent's, as root.
    pub owner: Option<Owner>,
    /// What is hidden.
    pub veil: Veil,
}

/// Where storage on disk is kept, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskPlace {
    /// Private folder of the run.
    pub folder: PathBuf,
    /// Who keeps it to its size.
    pub form: DiskForm,
}

/// What a plan is compiled from.
#[derive(Debug)]
pub struct SandboxSpec<'a> {
    /// What was granted.
    pub capabilities: &'a Capabilities,
    /// Where groups can be made.
    pub cgroups: &'a Cgroups,
    /// The sandbox's ids.
    pub identity: Identity,
    /// Whom commands run as.
    pub user: &'a UserName,
    /// The root and what is mounted in it.
    pub image: &'a Image,
    /// A folder with copies of input files, and empty folders for input folders.
    pub inputs: Option<FolderView>,
    /// Input folders by name.
    pub input_folders: Vec<(String, FolderView)>,
    /// The project.
    pub project: Option<FolderView>,
    /// Whether a writable union can be had in memory; the project is copied otherwise. On disk it always can.
    pub has_writable_union: bool,
    /// Where what the run writes is kept; in memory otherwise.
    pub disk: Option<DiskPlace>,
    /// The ways out.
    pub doors: &'a Doors,
}

/// System V shared memory and locked memory that a run may have, bytes.
const SHARED_MEMORY: u64 = 64 << 20;
const LOCKED_MEMORY: u64 = 8 << 20;
/// Pseudo terminals of a run.
const TERMINALS: u32 = 16;
/// Folders that the sandbox itself has in its scratch file system: the root, `tmp`, `shm` and `workspace`.
const OWN_FILES: u64 = 4;
/// The same for a project's view: `changes` and the kernel's `work` and what it makes there, in place of `workspace`.
const OWN_FILES_OF_VIEW: u64 = 7;
/// What more there is where the storage is a folder: the layer that is shown, and the kernel's `work` beside it with what it makes there.
const OWN_FILES_OF_FOLDER: u64 = 3;

/// Compiles the plan.
pub fn compile(spec: &SandboxSpec<'_>) -> Plan {
    let mut draft = Draft { sources: Vec::new(), steps: Vec::new() };
    draft.root(spec);
    draft.scratch(spec);
    draft.workspace(spec);
    draft.devices(is_executable(spec));
    draft.inputs(spec);
    draft.kernel();
    draft.doors(spec.doors);
    draft.steps.push(Step::Enter);
    Plan {
        identity: spec.identity,
        account: Account { uid: AGENT, gid: AGENT, name: spec.user.to_string(), home: spec.user.home() },
        sources: draft.sources,
        steps: draft.steps,
        sysctls: sysctls(),
        process_limits: process_limits(spec),
        group_limits: group_limits(spec.capabilities),
        path_rules: path_rules(spec),
        filter: filter(spec),
        environment: environment(spec),
        workspace: spec.user.home(),
        changes: (spec.project.is_some() && has_view(spec)).then(|| format!("{}/changes", layers(spec))),
        wall_ms: spec.capabilities.limits.get(LimitKey::Wall).unwrap_or(0),
    }
}

fn is_executable(spec: &SandboxSpec<'_>) -> bool {
    spec.capabilities.spawn == Spawn::Any
}

/// Whether a project can be shown as a view.
fn has_view(spec: &SandboxSpec<'_>) -> bool {
    spec.has_writable_union || spec.disk.is_some()
}

/// Where the layers of a project's view are: in the scratch file system, but for one that is a union itself.
fn layers(spec: &SandboxSpec<'_>) -> &'static str {
    match spec.disk.as_ref().map(|disk| disk.form) {
        Some(DiskForm::Folder) => "disk",
        Some(DiskForm::FileSystem) | None => "scratch",
    }
}

struct Draft {
    sources: Vec<Source>,
    steps: Vec<Step>,
}

impl Draft {
    fn tree(&mut self, path: PathBuf, owner: Option<Owner>, at: &str) {
        self.steps.push(Step::Tree { source: self.sources.len(), at: at.to_owned() });
        self.sources.push(Source { path, owner });
    }

    fn folder(&mut self, at: &str, mode: u32, is_agents: bool) {
        self.steps.push(Step::Folder { at: at.to_owned(), mode, is_agents });
    }

    fn union(&mut self, at: &str, layers: &[&str], executable: bool) {
        self.steps.push(Step::Union { at: at.to_owned(), layers: layers.iter().map(|l| (*l).to_owned()).collect(), executable });
    }

    fn bind(&mut self, from: &str, to: &str, executable: bool) {
        self.steps.push(Step::Bind { from: from.to_owned(), to: to.to_owned(), executable });
    }

    /// Unions, not binds: a bind would tell the host's device and path in the mount table.
    fn root(&mut self, spec: &SandboxSpec<'_>) {
        let image = spec.image;
        self.folder("empty", 0o755, false);
        self.tree(image.root.clone(), None, "skeleton");
        let above: Vec<String> = (0..image.layers.len()).map(|number| format!("above-{number}")).collect();
        image.layers.iter().zip(&above).for_each(|(layer, at)| self.tree(layer.path.clone(), None, at));
        let is_in_a_tree = |path: &str| image.trees.iter().any(|(name, _)| below(path, name).is_some());
        let files = given_files(spec);
        let own = files.iter().filter(|(path, _)| !is_in_a_tree(path)).map(|(path, text)| (path.trim_start_matches('/'), text.as_str()));
        self.shown("root", "given", own.collect(), &above, "skeleton");
        for (name, path) in &image.trees {
            self.tree(path.clone(), None, &format!("image-{name}"));
            let having = image.layers.iter().zip(&above).filter(|(layer, _)| layer.folders.contains(name));
            let above: Vec<String> = having.map(|(_, at)| format!("{at}/{name}")).collect();
            let own = files.iter().filter_map(|(path, text)| Some((below(path, name)?, text.as_str())));
            self.shown(&format!("root/{name}"), &format!("given-{name}"), own.collect(), &above, &format!("image-{name}"));
        }
    }

    /// A part of the image with the layers above it; where programs need files to find the ways out, these are on top.
    fn shown(&mut self, at: &str, given: &str, files: Vec<(&str, &str)>, above: &[String], part: &str) {
        let top = (!files.is_empty()).then_some(given);
        if let Some(layer) = top {
            let replaced = files.into_iter().map(|(path, text)| (OsText::from(path.as_bytes()), text.to_owned())).collect();
            self.steps.push(Step::Veil { layer: layer.into(), below: part.into(), hidden: Vec::new(), replaced });
        }
        let layers: Vec<&str> = top.into_iter().chain(above.iter().map(String::as_str)).chain([part, "empty"]).collect();
        self.union(at, &layers, true);
    }

    /// One sized file system for all that the run can write.
    fn scratch(&mut self, spec: &SandboxSpec<'_>) {
        let limit = |key| spec.capabilities.limits.get(key).unwrap_or(0);
        let own = spec.project.as_ref().map_or(OWN_FILES, |project| OWN_FILES_OF_VIEW + veil_entries(&project.veil));
        let (bytes, files, executable) = (limit(LimitKey::Disk), limit(LimitKey::Files), is_executable(spec));
        match spec.disk.clone() {
            None => self.steps.push(Step::Tmpfs { at: "scratch".into(), bytes, files: files.saturating_add(own), executable }),
            Some(DiskPlace { folder, form }) => self.disk(Disk { folder, form, bytes, files, own, executable }),
        }
        self.folder("scratch/tmp", 0o1777, true);
        self.folder("scratch/shm", 0o1777, true);
        self.bind("scratch/tmp", "root/tmp", is_executable(spec));
    }

    /// A folder of the host's is shown through a union over nothing, not as it is: its path would stand in the mount table.
    fn disk(&mut self, disk: Disk) {
        let executable = disk.executable;
        match disk.form {
            // Its root is counted by the kernel before.
            DiskForm::FileSystem => self.steps.push(Step::Disk { at: "scratch".into(), disk: Disk { own: disk.own - 1, ..disk } }),
            DiskForm::Folder => {
                self.steps.push(Step::Disk { at: "disk".into(), disk: Disk { own: disk.own + OWN_FILES_OF_FOLDER, ..disk } });
                self.folder("disk/files", 0o755, true);
                self.folder("disk/work", 0o755, true);
                self.view("scratch", "empty", ["disk/files", "disk/work"], executable);
            }
        }
    }

    fn view(&mut self, at: &str, lower: &str, [upper, work]: [&str; 2], executable: bool) {
        let [at, lower, upper, work] = [at, lower, upper, work].map(str::to_owned);
        self.steps.push(Step::View { at, lower, upper, work, executable });
    }

    /// The agent's is in every root; for another user's there is a folder of ours in `/home`.
    fn home(&mut self, spec: &SandboxSpec<'_>) -> String {
        let home = format!("root{}", spec.user.home());
        if !spec.user.is_agent() {
            self.steps.push(Step::Tmpfs { at: "root/home".into(), bytes: 64 << 10, files: 8, executable: false });
            self.folder(&home, 0o755, false);
            self.steps.push(Step::ReadOnly { at: "root/home".into() });
        }
        home
    }

    fn workspace(&mut self, spec: &SandboxSpec<'_>) {
        let executable = is_executable(spec);
        let home = self.home(spec);
        let Some(project) = &spec.project else {
            self.folder("scratch/workspace", 0o755, true);
            return self.bind("scratch/workspace", &home, executable);
        };
        self.tree(project.path.clone(), project.owner.clone(), "project");
        let Veil { hidden, replaced } = project.veil.clone();
        if !has_view(spec) {
            self.steps.push(Step::Copy { from: "project".into(), to: "scratch/workspace".into(), hidden, replaced });
            return self.bind("scratch/workspace", &home, executable);
        }
        let (changes, work) = (format!("{}/changes", layers(spec)), format!("{}/changes-work", layers(spec)));
        self.folder(&work, 0o755, true);
        self.steps.push(Step::Veil { layer: changes.clone(), below: "project".into(), hidden, replaced });
        self.view(&home, "project", [&changes, &work], executable);
    }

    fn devices(&mut self, executable: bool) {
        self.steps.push(Step::Tmpfs { at: "root/dev".into(), bytes: 64 << 10, files: 64, executable: false });
        for name in DEVICES {
            self.steps.push(Step::Device { name: (*name).into() });
        }
        for (at, to) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            self.steps.push(Step::Link { at: format!("root/dev/{at}"), to: to.into() });
        }
        self.steps.push(Step::Terminals { at: "root/dev/pts".into(), most: TERMINALS });
        self.folder("root/dev/shm", 0o755, false);
        self.bind("scratch/shm", "root/dev/shm", executable);
        self.steps.push(Step::ReadOnly { at: "root/dev".into() });
    }

    fn inputs(&mut self, spec: &SandboxSpec<'_>) {
        let Some(files) = &spec.inputs else { return };
        self.tree(files.path.clone(), files.owner.clone(), "inputs");
        self.union("root/inputs", &["inputs", "empty"], is_executable(spec));
        for (number, (name, folder)) in spec.input_folders.iter().enumerate() {
            let (layer, below) = (format!("veil-{number}"), format!("input-{number}"));
            self.tree(folder.path.clone(), folder.owner.clone(), &below);
            let Veil { hidden, replaced } = folder.veil.clone();
            self.steps.push(Step::Veil { layer: layer.clone(), below: below.clone(), hidden, replaced });
            self.union(&format!("root/inputs/{name}"), &[&layer, &below], is_executable(spec));
        }
    }

    fn kernel(&mut self) {
        self.steps.push(Step::Proc { at: "root/proc".into() });
        self.steps.extend(MASKED.iter().map(|name| Step::Mask { at: format!("root/proc/{name}") }));
        self.steps.push(Step::BootId { at: "root/proc/sys/kernel/random/boot_id".into() });
        self.steps.push(Step::HostName { name: "sandbox".into() });
        self.steps.push(Step::Loopback);
    }

    fn doors(&mut self, doors: &Doors) {
        let address = |(number, (address, bits)): (u32, &(Ipv4Addr, u8))| Step::Address { number, address: *address, bits: *bits };
        self.steps.extend((1..).zip(&doors.addresses).map(address));
        self.steps.extend(doors.doors.iter().map(|door| Step::Door { door: *door }));
    }
}

/// What is left of an absolute path below a folder of `/`.
fn below<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    path.strip_prefix('/')?.strip_prefix(name)?.strip_prefix('/')
}

/// Marks, replaced files and the folders above them.
fn veil_entries(veil: &Veil) -> u64 {
    let paths = || veil.hidden.iter().chain(veil.replaced.iter().map(|(path, _)| path));
    let folders: std::collections::BTreeSet<&[u8]> = paths().flat_map(|path| folders_above(path.as_bytes())).collect();
    (paths().count() + folders.len()) as u64
}

fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// Files of `/proc` that tell about the host beyond this namespace and are readable by anyone.
const MASKED: &[&str] = &[
    "cmdline",
    "config.gz",
    "diskstats",
    "partitions",
    "swaps",
    "iomem",
    "ioports",
    "keys",
    "key-users",
    "kallsyms",
    "modules",
    "timer_list",
    "sched_debug",
    "latency_stats",
    "vmallocinfo",
    "interrupts",
];

/// Namespaces inside namespaces are the way to most kernel bugs: none can be made. Watches are counted per user: bounded.
fn sysctls() -> Vec<Sysctl> {
    let required = |name: &str| Sysctl { name: format!("user/max_{name}_namespaces"), value: "0".into(), is_required: true };
    let wanted = |name: &str, value: String| Sysctl { name: name.into(), value, is_required: false };
    ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .into_iter()
        .map(required)
        .chain([
            wanted("user/max_time_namespaces", "0".into()),
            wanted("user/max_inotify_instances", "64".into()),
            wanted("user/max_inotify_watches", "16384".into()),
            wanted("kernel/shmall", (SHARED_MEMORY / 4096).to_string()),
            wanted("kernel/shmmax", SHARED_MEMORY.to_string()),
        ])
        .collect()
}

fn process_limits(spec: &SandboxSpec<'_>) -> Vec<(ProcessLimit, u64)> {
    let limit = |key| spec.capabilities.limits.get(key).unwrap_or(u64::MAX);
    let mut limits = vec![
        (ProcessLimit::Processes, limit(LimitKey::Processes).saturating_add(shares_id_with_init(spec) + behind_the_cgroup(spec))),
        (ProcessLimit::FileSize, limit(LimitKey::Disk)),
        (ProcessLimit::OpenFiles, limit(LimitKey::OpenFiles)),
        (ProcessLimit::Core, 0),
        (ProcessLimit::RealTimePriority, 0),
        (ProcessLimit::Nice, 0),
        (ProcessLimit::Cpu, limit(LimitKey::Cpu).div_ceil(1000) + 1),
        (ProcessLimit::LockedMemory, LOCKED_MEMORY),
        (ProcessLimit::PendingSignals, 1024),
        (ProcessLimit::MessageQueues, 0),
    ];
    if !spec.cgroups.holds_memory() {
        // A backstop far behind the supervisor, which ends the run at the limit itself and says so; nearer, a program would only see an allocation fail.
        limits.push((ProcessLimit::Data, limit(LimitKey::Memory).saturating_mul(8)));
    }
    limits
}

/// The kernel counts processes by user; as an ordinary user init is one of them.
fn shares_id_with_init(spec: &SandboxSpec<'_>) -> u64 {
    match spec.identity {
        Identity::Range { .. } => 0,
        Identity::Single { .. } => 1,
    }
}

/// Where a cgroup holds the number of processes it is met first, since it also counts the refusals.
fn behind_the_cgroup(spec: &SandboxSpec<'_>) -> u64 {
    u64::from(spec.cgroups.holds_memory())
}

/// What the cgroup of a run holds.
pub fn group_limits(capabilities: &Capabilities) -> GroupLimits {
    let limits = &capabilities.limits;
    GroupLimits {
        memory_bytes: limits.get(LimitKey::Memory),
        processes: limits.get(LimitKey::Processes).map(|most| most.saturating_add(1)),
        cpus_milli: limits.get(LimitKey::Cpus),
    }
}

/// Files that are put in place of what the image has: those of the ways out, and the list of users where the user is not the image's.
fn given_files(spec: &SandboxSpec<'_>) -> Vec<(String, String)> {
    let mut files = spec.doors.files.clone();
    if !spec.user.is_agent() {
        let (user, home) = (spec.user, spec.user.home());
        let users = format!(
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n{user}:x:{AGENT}:{AGENT}:{user}:{home}:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        );
        files.push(("/etc/passwd".into(), users));
        files.push(("/etc/group".into(), format!("root:x:0:\n{user}:x:{AGENT}:\nnogroup:x:65534:\n")));
    }
    files
}

fn path_rules(spec: &SandboxSpec<'_>) -> Vec<PathRule> {
    let rule = |path: &str, access| PathRule { path: path.into(), access };
    let (inputs, writable) = match is_executable(spec) {
        true => (Access::Execute, Access::WriteExecute),
        false => (Access::Read, Access::Write),
    };
    let mut rules = vec![rule("/", Access::List)];
    rules.extend(spec.image.folders.iter().map(|name| rule(&format!("/{name}"), Access::Execute)));
    rules.extend(spec.image.files.iter().map(|name| rule(&format!("/{name}"), Access::Program)));
    let files = given_files(spec);
    let given = files.iter().filter_map(|(path, _)| path.split('/').nth(1));
    let given = given.filter(|name| spec.image.folders.iter().all(|folder| folder != name));
    let readable: BTreeSet<&str> = ["etc", "proc", "run"].into_iter().chain(given).collect();
    rules.extend(readable.into_iter().map(|name| rule(&format!("/{name}"), Access::Read)));
    rules.push(rule("/inputs", inputs));
    rules.push(rule("/dev", Access::Device));
    for path in [spec.user.home().as_str(), "/tmp", "/dev/shm"] {
        rules.push(rule(path, writable));
    }
    rules
}

fn filter(spec: &SandboxSpec<'_>) -> FilterSpec {
    let is_counted = spec.cgroups.holds_memory();
    FilterSpec {
        debug: spec.capabilities.kernel == Kernel::Debug,
        processes: spec.capabilities.spawn != Spawn::None,
        anonymous_files: is_counted && is_executable(spec),
        shared_memory: is_counted,
        same_user: shares_id_with_init(spec) == 1,
    }
}

/// An image may say where its programs are and which language they speak, but not who the agent is and where it writes.
fn environment(spec: &SandboxSpec<'_>) -> Vec<(String, String)> {
    let image = spec.image;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let home = spec.user.home();
    let own = [("HOME", home.as_str()), ("USER", spec.user.as_str()), ("TMPDIR", "/tmp"), ("TERM", "dumb")];
    let standing_in = [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8")];
    let is_free = |(name, _): &&(String, String)| own.iter().all(|(taken, _)| taken != name);
    let mut variables: Vec<(String, String)> = own.map(owned).to_vec();
    variables.extend(image.environment.iter().filter(is_free).cloned());
    let missing = standing_in.into_iter().filter(|(name, _)| image.environment.iter().all(|(set, _)| set != name));
    variables.extend(missing.map(owned));
    variables.extend(spec.doors.environment.iter().cloned());
    variables
}
