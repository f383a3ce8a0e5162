//! What ringfence can leave on a host, looked for in every place where it makes something.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use ringfence_evidence::{EVENTS_FILE, PublicKey, RunEnd, STATEMENT_FILE, verify};

use crate::support::{cgroups, eventually};

/// What of the host itself must be as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    mounts: Vec<String>,
    loop_devices: Vec<String>,
    run_folder: Vec<String>,
}

impl Host {
    pub(crate) fn look() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect();
        // Those of runs are looked for by their home: other tests have some at the same time.
        let loop_devices = loop_devices().into_iter().filter(|file| !file.contains("/home/work/")).collect();
        Self { mounts, loop_devices, run_folder: names(Path::new("/run/ringfence")) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mounts, {} loop devices", self.mounts.len(), self.loop_devices.len())
    }
}

/// The files behind the loop devices that are in use.
fn loop_devices() -> Vec<String> {
    let file = |name: String| fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok();
    names(Path::new("/sys/block")).into_iter().filter_map(file).collect()
}

/// The files behind those of the runs of a home.
pub(crate) fn loop_devices_of(home: &Path) -> Vec<String> {
    loop_devices().into_iter().filter(|file| Path::new(file).starts_with(home)).collect()
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The runs of a home.
pub(crate) fn runs(home: &Path) -> BTreeSet<String> {
    names(&home.join("runs")).into_iter().collect()
}

/// Runs that were accepted (the first line of the record is whole) and are not sealed.
pub(crate) fn open_runs(home: &Path) -> BTreeSet<String> {
    let is_open = |run: &String| {
        let folder = home.join("runs").join(run);
        fs::read(folder.join(EVENTS_FILE)).is_ok_and(|events| events.contains(&b'\n')) && !folder.join(STATEMENT_FILE).exists()
    };
    runs(home).into_iter().filter(is_open).collect()
}

/// How a run ended, by a record that verifies.
pub(crate) fn sealed_end(home: &Path, run: &str) -> RunEnd {
    let read = |name: &str| fs::read(home.join("runs").join(run).join(name)).unwrap_or_else(|e| panic!("{run}: {name}: {e}"));
    let key = PublicKey::from_pem(&fs::read_to_string(home.join("keys/evidence.pub")).unwrap()).unwrap();
    verify(&read(EVENTS_FILE), &read(STATEMENT_FILE), &key).unwrap_or_else(|e| panic!("{run}: {e}")).statement.predicate.end
}

/// Everything of a home's runs that is still there, but for their records and artifacts.
pub(crate) fn left_of(home: &Path) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    for folder in ["live", "work", "damaged"] {
        left.extend(names(&home.join(folder)).into_iter().map(|name| format!("{folder}/{name}")));
    }
    let folders = ["", "keys", "agents", "persons", "artifacts", "images"].map(|folder| home.join(folder));
    let records = runs(home).into_iter().map(|run| home.join("runs").join(run));
    for folder in folders.into_iter().chain(records) {
        let is_draft = |name: &String| name.contains("draft") || name == "reserve";
        left.extend(names(&folder).into_iter().filter(is_draft).map(|name| folder.join(name).display().to_string()));
    }
    left.extend(loop_devices_of(home));
    let runs = runs(home);
    left.extend(cgroups().into_iter().filter(|group| runs.contains(group)).map(|group| format!("cgroup {group}")));
    left
}

/// Processes of a program, or with a mark on their command line. (Only root can ask what an init's program is.)
pub(crate) fn processes(program: &Path, mark: &str) -> Vec<String> {
    let is_ours = |pid: &String| {
        let folder = PathBuf::from("/proc").join(pid);
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        fs::read_link(folder.join("exe")).is_ok_and(|exe| exe == program) || String::from_utf8_lossy(&line).contains(mark)
    };
    names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())).filter(is_ours).collect()
}

/// Within ten seconds nothing is left of the runs of a home.
pub(crate) fn assert_nothing_is_left(home: &Path) {
    eventually(&format!("nothing left of {:?}", left_of(home)), || left_of(home).is_empty());
}
