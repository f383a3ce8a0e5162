//! What the tests share: two kinds of users, a home for each test, and the binary where any user can reach it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;
use tempfile::TempDir;

/// An id that is in no password file of a fresh system, and in no range that ringfence hands out.
pub(crate) const ORDINARY: u32 = 61_234;

/// Who runs ringfence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Root and an ordinary user where the tests run as root, else the one user there is.
pub(crate) fn users() -> Vec<User> {
    if is_root() { vec![User::Root, User::Ordinary] } else { vec![User::Ordinary] }
}

/// A place of one test: a home for records, and folders for inputs, all owned by the user.
pub(crate) struct Place {
    pub(crate) user: User,
    folder: TempDir,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new(user: User) -> Self {
        let place = Self { user, folder: tempfile::tempdir().unwrap() };
        fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        place.give(place.folder.path());
        place
    }

    /// One for each kind of user.
    pub(crate) fn each() -> Vec<Self> {
        users().into_iter().map(Self::new).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// Writes a file, with its folders, owned by the user.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        let folder = path.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        fs::write(&path, content).unwrap();
        let mut at = path.as_path();
        while at.starts_with(self.folder.path()) {
            self.give(at);
            at = at.parent().unwrap();
        }
        path
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        self.give(&path);
        path
    }

    pub(crate) fn give(&self, path: &Path) {
        if is_root() && self.user == User::Ordinary {
            chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
    }

    /// A command of any kind as this user.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env("RINGFENCE_HOME", self.home())
            .env("HOME", self.path("nobody-home"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        if is_root() && self.user == User::Ordinary {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        command
    }

    /// `ringfence` with these arguments.
    pub(crate) fn ringfence(&self, arguments: &[&str]) -> Outcome {
        outcome(self.command(binary()).args(arguments).output().unwrap())
    }

    /// `ringfence run OPTIONS -- bash -c SCRIPT`.
    pub(crate) fn bash(&self, options: &[&str], script: &str) -> Outcome {
        self.ringfence(&[&["run"], options, &["--", "bash", "-c", script]].concat())
    }

    /// The report of `ringfence run --json OPTIONS -- COMMAND`, and the exit status.
    pub(crate) fn report(&self, options: &[&str], command: &[&str]) -> (Value, i32) {
        let outcome = self.ringfence(&[&["run", "--json"], options, &["--"], command].concat());
        let report = serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"));
        (report, outcome.status)
    }

    /// Nothing of any run of this home is left: no mark, no private folder, no cgroup.
    pub(crate) fn assert_clean(&self) {
        for folder in ["live", "work"] {
            let left: Vec<_> = fs::read_dir(self.home().join(folder)).unwrap().flatten().map(|e| e.file_name()).collect();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
        let runs: Vec<String> =
            fs::read_dir(self.home().join("runs")).unwrap().flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        let groups = cgroups();
        assert!(!runs.iter().any(|run| groups.contains(run)), "cgroups: {groups:?}");
    }
}

pub(crate) fn outcome(output: Output) -> Outcome {
    use std::os::unix::process::ExitStatusExt;
    let status = output.status.code().or(output.status.signal().map(|s| 128 + s)).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The binary in a folder that every user can reach, whatever the permissions of the build's own folder. Copied by another process: a child that is
/// just being started would for a moment hold the copy open for writing, and nobody could execute it.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BINARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("ringfence");
        assert!(Command::new("/bin/cp").arg(env!("CARGO_BIN_EXE_ringfence")).arg(&path).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    });
    path
}

/// Names of the groups that exist below any folder `ringfence` of the cgroup trees.
pub(crate) fn cgroups() -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            if folder.file_name().is_some_and(|name| name == "ringfence") {
                found.extend(entry.file_name().into_string());
            }
            waiting.push(entry.path());
        }
    }
    found
}

/// Processes that are `sleep MARK` themselves (not a launcher that was told to run it).
pub(crate) fn sleepers(mark: &str) -> Vec<String> {
    let wanted = format!("sleep\0{mark}\0");
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().into_string().ok());
    pids.filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted.as_bytes())).collect()
}

/// How often something is tried: from the environment (`make soak`), or else few times.
pub(crate) fn count(name: &str, few: u64) -> u64 {
    std::env::var(name).map_or(few, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// At most `most` numbers from 1 to `last`, evenly spread, both ends among them.
pub(crate) fn spread(last: u64, most: u64) -> Vec<u64> {
    let steps = most.min(last).max(2);
    (0..steps).map(|step| 1 + step * (last - 1) / (steps - 1)).collect()
}

/// Waits until a fact holds, for at most ten seconds.
pub(crate) fn eventually(what: &str, fact: impl Fn() -> bool) {
    for _ in 0..1000 {
        if fact() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what} did not come true");
}

/// Processes whose program is `name` and whose command line holds `mark`.
pub(crate) fn processes_of(name: &str, mark: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().into_string().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split('\0').next().is_some_and(|program| program.ends_with(name)) && line.contains(mark)
    })
    .collect()
}

/// Does the same to each of several things, some at a time; answers in their order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], at_a_time: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some((number, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, items.get(n)?))) {
                    let result = work(item);
                    done.lock().unwrap().push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The text of every test of this repository, to see whether one that is named somewhere is there.
pub(crate) fn sources() -> String {
    let mut waiting: Vec<PathBuf> = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
    let mut text = String::new();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}
