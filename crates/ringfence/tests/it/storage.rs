//! Storage on disk: as root a file system of its own, held by the kernel; as an ordinary user a folder that the supervisor sums.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::left::{Host, assert_nothing_is_left, loop_devices_of, names};
use crate::support::{Place, User, binary, eventually, is_root, outcome, sleepers};

/// One after another: what is left on the host is compared, and loop devices are everybody's.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn on_disk(place: &Place, options: &[&str], program: &str) -> (Value, i32) {
    place.report(&[&["--storage", "disk"], options].concat(), &["python3", "-c", program])
}

fn grade(place: &Place) -> &'static str {
    match place.user {
        User::Root => "kernel",
        User::Ordinary => "watched",
    }
}

/// Writes files of 1 MiB to the three places in turn until one is refused, and says how many bytes there are then.
const FILL: &str = "import os, time
total = 0
try:
 for n in range(200):
  with open(('/workspace/', '/tmp/', '/dev/shm/')[n % 3] + str(n), 'wb', buffering=0) as f:
   for i in range(16): total += f.write(b'x' * 65536)
except OSError as e: print(total, e.errno)
time.sleep(0.3)";

#[test]
fn bytes_on_disk_are_held_exactly_or_end_the_run() {
    let _alone = alone();
    for place in Place::each() {
        let most = 64 << 20;
        let (report, status) = on_disk(&place, &["--limit", "disk=64MiB"], FILL);
        assert_eq!((&report["grades"]["disk"], &report["grades"]["files"]), (&json!(grade(&place)), &json!(grade(&place))));
        match place.user {
            User::Root => {
                let said: Vec<u64> = report["stdout"].as_str().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
                assert!(said[0] <= most && said[0] >= most * 98 / 100, "{} of {most}: {report}", said[0]);
                assert_eq!((said[1], &report["limits_reached"], status), (28, &json!(["disk"]), 0));
            }
            User::Ordinary => {
                assert_eq!((&report["end"], status), (&json!({"kind": "limit", "limit": "disk"}), 124), "{report}");
            }
        }
        place.assert_clean();
    }
}

#[test]
fn files_on_disk_are_held_exactly_or_end_the_run() {
    let _alone = alone();
    let many = "import os, time\nn = 0\ntry:\n for i in range(2000): open(f'/tmp/{i}', 'w').close(); n += 1\nexcept OSError as e: print(n, e.errno)\ntime.sleep(0.3)";
    for place in Place::each() {
        let (report, status) = on_disk(&place, &["--limit", "files=200", "--limit", "disk=256MiB"], many);
        match place.user {
            User::Root => {
                assert_eq!((&report["stdout"], &report["limits_reached"], status), (&json!("200 28\n"), &json!(["files"]), 0), "{report}");
            }
            User::Ordinary => {
                assert_eq!((&report["end"], status), (&json!({"kind": "limit", "limit": "files"}), 124), "{report}");
            }
        }
    }
}

/// One file is no larger than the limit, and one that has lost its name still counts.
#[test]
fn what_hides_on_disk_is_bounded_too() {
    let _alone = alone();
    for place in Place::each() {
        let sparse = "try: open('s', 'wb').truncate(64 << 30)\nexcept OSError as e: print(e.errno)";
        assert_eq!(on_disk(&place, &["--limit", "disk=8MiB"], sparse).0["stdout"], "27\n");
        let nameless = "import os, time\nheld = []\ntry:\n for i in range(8):\n  f = open('x', 'wb', buffering=0); os.unlink('x'); held.append(f)\n  for j in range(4): f.write(b'x' * (1 << 20))\nexcept OSError as e: print(len(held), e.errno)\ntime.sleep(1)";
        let (report, _) = on_disk(&place, &["--limit", "disk=8MiB"], nameless);
        match place.user {
            User::Root => assert_eq!(report["stdout"], "3 28\n", "{report}"),
            User::Ordinary => assert_eq!(report["end"], json!({"kind": "limit", "limit": "disk"}), "{report}"),
        }
        let closed = "import os, time\nos.mkdir('c')\nfor i in range(16): open(f'c/{i}', 'wb').write(b'x' * (1 << 20))\nos.chmod('c', 0)\ntime.sleep(1)\nprint('WENT ON')";
        let (report, _) = on_disk(&place, &["--limit", "disk=8MiB"], closed);
        assert_ne!(report["stdout"], "WENT ON\n", "{report}");
    }
}

#[test]
fn what_is_on_disk_is_no_memory() {
    let _alone = alone();
    let write = "f = open('/workspace/big', 'wb', buffering=0)\nfor i in range(48): f.write(b'x' * (1 << 20))\nimport time; time.sleep(0.2)\nprint('WRITTEN')";
    for place in Place::each() {
        let options = ["--limit", "memory=32MiB", "--limit", "disk=64MiB"];
        let (report, status) = on_disk(&place, &options, write);
        assert_eq!((&report["stdout"], status), (&json!("WRITTEN\n"), 0), "{:?} {report}", place.user);
        let (report, status) = place.report(&options, &["python3", "-c", write]);
        assert_eq!((&report["end"], status), (&json!({"kind": "limit", "limit": "memory"}), 137), "{:?} {report}", place.user);
    }
}

#[test]
fn a_project_on_disk_is_a_view_whose_patch_and_exports_leave() {
    let _alone = alone();
    for place in Place::each() {
        place.write("p/a.txt", "a\n");
        place.write("p/sub/b.txt", "b\n");
        place.write("p/.env", "SECRET=1\n");
        let options = [
            ["--storage", "disk"],
            ["--project", place.path("p").to_str().unwrap()],
            ["--export", "changes.patch"],
            ["--export", "new/*"],
            ["--out", "out"],
        ]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let script = "ls -A; echo more >> a.txt; rm -r sub; mkdir new sub; echo c > new/c.txt; echo d > sub/d.txt";
        let (report, status) = place.report(&options, &["bash", "-c", script]);
        assert_eq!((&report["stdout"], status), (&json!("a.txt\nsub\n"), 0), "{:?} {report}", place.user);
        let patch = fs::read_to_string(place.path("out/changes.patch")).unwrap();
        for line in ["+more", "deleted file", "+c", "+d"] {
            assert!(patch.contains(line), "{line}: {patch}");
        }
        assert_eq!(fs::read_to_string(place.path("out/new/c.txt")).unwrap(), "c\n");
        assert_eq!(fs::read_to_string(place.path("p/a.txt")).unwrap(), "a\n");
        place.assert_clean();
    }
}

/// The same rules of `spawn` hold, and the mount table does not tell where the host keeps it.
#[test]
fn storage_on_disk_has_the_fence_of_storage_in_memory() {
    let _alone = alone();
    for place in Place::each() {
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
        place.write("own.toml", shown.replace("spawn = \"any\"", "spawn = \"own\"").replace("name = \"data-analysis\"", "name = \"own\""));
        let script = "cp /bin/true x; cp /bin/true /tmp/x; cp /bin/true /dev/shm/x; for f in ./x /tmp/x /dev/shm/x; do $f && echo RAN; done; cat /proc/self/mountinfo";
        let options = ["--storage", "disk", "--profile", "own.toml"];
        let (report, _) = place.report(&options, &["bash", "-c", script]);
        let said = report["stdout"].as_str().unwrap();
        assert!(!said.contains("RAN") && said.contains(" /workspace "), "{report}");
        assert!(!said.contains(place.path("").to_str().unwrap()), "{said}");
        for mount in said.lines().filter(|line| [" /workspace ", " /tmp ", " /dev/shm "].iter().any(|at| line.contains(at))) {
            assert!(mount.contains("nosuid,nodev,noexec"), "{mount}");
        }
    }
}

#[test]
fn after_kill_minus_nine_nothing_is_left_of_the_disk() {
    let _alone = alone();
    for place in Place::each() {
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        let before = Host::look();
        let mark = format!("83.{}", place.user as u8 + 17);
        let script = format!("head -c 4000000 /dev/zero > x; mkdir -p a/b; chmod 000 a; sleep {mark}");
        let mut child =
            place.command(binary()).args(["run", "--storage", "disk", "--", "bash", "-c", &script]).stderr(Stdio::null()).spawn().unwrap();
        eventually("start of the sleeper", || sleepers(&mark).len() == 1);
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        eventually("death of the tree", || sleepers(&mark).is_empty());
        eventually("a host as before", || Host::look() == before);
        eventually("an end of the loop device without a sweep", || loop_devices_of(&place.home()).is_empty());
        let work = place.home().join("work");
        let private: Vec<String> = names(&work).iter().flat_map(|run| names(&work.join(run))).collect();
        assert!(place.user == User::Ordinary || private.is_empty(), "as root nothing has a name: {private:?}");
        assert_eq!(place.ringfence(&["run", "--quiet", "--", "true"]).stderr, "");
        assert_nothing_is_left(&place.home());
    }
}

/// Deep enough that neither a path nor a stack would hold it.
#[test]
fn a_tree_without_an_end_is_removed() {
    let _alone = alone();
    let deep = "import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')\nprint('DEEP')";
    for place in Place::each() {
        let (report, _) = on_disk(&place, &[], deep);
        match place.user {
            User::Root => assert_eq!(report["stdout"], "DEEP\n", "{report}"),
            User::Ordinary => assert_eq!(report["end"], json!({"kind": "limit", "limit": "files"}), "{report}"),
        }
        place.assert_clean();
    }
}

#[test]
fn storage_that_cannot_be_had_is_refused_and_never_weakened() {
    let _alone = alone();
    for place in Place::each() {
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
        let profile = |name: &str, from: &str, to: &str| {
            let text = shown.replace(from, to).replace("name = \"data-analysis\"", &format!("name = \"{name}\""));
            place.write(&format!("{name}.toml"), text);
        };
        profile("never", "storage = \"disk\"", "storage = \"memory\"");
        let (report, status) = place.report(&["--profile", "never.toml", "--storage", "disk"], &["true"]);
        assert_eq!((&report["end"]["rule"], status), (&json!("storage on disk is not allowed"), 125), "{report}");
        profile("strict", "disk = \"watched\"", "disk = \"kernel\"");
        let (report, status) = place.report(&["--profile", "strict.toml", "--storage", "disk"], &["true"]);
        let weaker = json!("the disk limit can only be watched here, the profile accepts no less than kernel");
        match place.user {
            User::Root => assert_eq!((&report["grades"]["disk"], status), (&json!("kernel"), 0), "{report}"),
            User::Ordinary => assert_eq!((&report["end"]["rule"], status), (&weaker, 125), "{report}"),
        }
        let memory = place.report(&["--profile", "strict.toml"], &["true"]);
        assert_eq!((&memory.0["grades"]["disk"], memory.1), (&json!("kernel"), 0), "in memory the kernel always holds it");
        let wrong = place.ringfence(&["run", "--storage", "tape", "--", "true"]);
        assert!(wrong.status == 125 && wrong.stderr.contains("memory, disk"), "{wrong:?}");
    }
}

/// A home in memory is no disk.
#[test]
fn a_home_in_memory_is_refused() {
    let _alone = alone();
    for place in Place::each() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        place.give(home.path());
        let run = |storage: &str| {
            let arguments = ["run", "--storage", storage, "--", "true"];
            outcome(place.command(binary()).env("RINGFENCE_HOME", home.path()).args(arguments).output().unwrap())
        };
        let refused = run("disk");
        assert!(refused.status == 125 && refused.stderr.contains("tmpfs") && refused.stderr.contains("hint: "), "{refused:?}");
        assert_eq!(run("memory").status, 0);
    }
}

#[test]
fn without_the_tool_that_makes_file_systems_root_is_refused_and_told_the_package() {
    let _alone = alone();
    for place in Place::each().into_iter().filter(|_| is_root()) {
        let run =
            |arguments: &[&str]| outcome(place.command(binary()).env("PATH", place.folder("empty")).args(arguments).output().unwrap());
        let done = run(&["run", "--storage", "disk", "--", "true"]);
        match place.user {
            User::Root => {
                assert_eq!(done.status, 125, "{done:?}");
                assert!(done.stderr.contains("needs `mke2fs`") && done.stderr.contains("e2fsprogs"), "{done:?}");
                let doctor = run(&["doctor"]);
                assert!(doctor.status == 0 && doctor.stdout.contains("e2fsprogs"), "{doctor:?}");
            }
            User::Ordinary => assert_eq!(done.status, 0, "an ordinary user needs no tool: {done:?}"),
        }
        assert_eq!(run(&["run", "--", "true"]).status, 0);
    }
}

fn tree_of(folder: &Path, files: usize) {
    for number in 0..files {
        let below = folder.join((number / 1000).to_string());
        if number % 1000 == 0 {
            fs::create_dir_all(&below).unwrap();
        }
        fs::write(below.join(number.to_string()), "x").unwrap();
    }
}

/// A large project is looked at, not copied: there is no copy in the run's private folder while it runs.
#[test]
fn a_project_of_a_hundred_thousand_files_is_not_copied() {
    let _alone = alone();
    let place_of_tree = tempfile::tempdir_in("/dev/shm").unwrap();
    tree_of(&place_of_tree.path().join("p"), 100_000);
    for place in Place::each() {
        if is_root() && place.user == User::Ordinary {
            let owner = format!("{0}:{0}", crate::support::ORDINARY);
            assert!(std::process::Command::new("/bin/chown").args(["-R", &owner]).arg(place_of_tree.path()).status().unwrap().success());
        }
        place.write("small/a", "x");
        for storage in ["memory", "disk"] {
            let took = |project: &Path| {
                let begun = Instant::now();
                let options = ["--storage", storage, "--project", project.to_str().unwrap(), "--limit", "files=1000"];
                let (report, status) = place.report(&options, &["bash", "-c", "ls | wc -l; echo x > new; stat -f -c %T ."]);
                assert_eq!(status, 0, "{report}");
                (begun.elapsed(), report)
            };
            let (without, _) = took(&place.path("small"));
            let (with, report) = took(&place_of_tree.path().join("p"));
            assert_eq!(report["stdout"], "100\noverlayfs\n", "{:?} {report}", place.user);
            println!("{:?}, {storage}: {} ms with 100,000 files, {} ms with one", place.user, with.as_millis(), without.as_millis());
            assert_no_copy(&place, storage, &place_of_tree.path().join("p"));
        }
        place.assert_clean();
    }
}

fn assert_no_copy(place: &Place, storage: &str, project: &Path) {
    let mark = format!("0.9{}{}", place.user as u8 + 3, storage.len());
    let arguments = ["run", "--quiet", "--storage", storage, "--project", project.to_str().unwrap(), "--", "sleep", &mark];
    let mut child = place.command(binary()).args(arguments).spawn().unwrap();
    eventually("start of the sleeper", || sleepers(&mark).len() == 1);
    let work = place.home().join("work");
    let private: Vec<String> = names(&work).iter().flat_map(|run| names(&work.join(run))).collect();
    assert!(private.iter().all(|name| name == "storage"), "{private:?}");
    assert!(child.wait().unwrap().success());
}
