//! Races against a whole run: a program that goes on swapping names when its command has ended, and a neighbour on the host that swaps what is in the
//! project. (Export against a live swapper is in the tests of `isolation`.)

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::{Place, count};

const BAIT: &str = "CANARY_BAIT";

/// Every file of a folder, whole.
fn contents(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(contents(&entry.path()));
        } else if kind.is_file() {
            found.push((entry.path(), String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()));
        }
    }
    found
}

/// The swapper is dead before anything is collected: one of the two names is the file, whole, and the other is refused.
#[test]
fn a_program_that_swaps_to_the_last_moment_exports_the_file_or_nothing() {
    for place in Place::each() {
        let bait = place.write("bait", BAIT);
        let swap = format!(
            "import ctypes, os\nl = ctypes.CDLL(None)\nopen('victim', 'w').write('honest')\nos.symlink({:?}, 'spare')\n\
             if os.fork(): os._exit(0)\n\
             while True: l.syscall(316, -100, b'victim', -100, b'spare', 2)",
            bait.to_str().unwrap()
        );
        let mut left = 0;
        for run in 0..count("RINGFENCE_RACES", 5) {
            let out = place.path(&format!("out-{run}"));
            place.ringfence(&[
                "run",
                "--quiet",
                "--export",
                "victim",
                "--export",
                "sp*",
                "--out",
                out.to_str().unwrap(),
                "--",
                "python3",
                "-c",
                &swap,
            ]);
            let exported = contents(&out);
            assert!(exported.iter().all(|(_, text)| text == "honest") && exported.len() <= 1, "{exported:?}");
            left += exported.len();
        }
        assert!(left > 0, "the file itself leaves, under either name");
        assert!(contents(&place.home()).iter().all(|(_, text)| !text.contains(BAIT)));
    }
}

/// Whoever can write to a project can swap its files while a run looks at them: nothing from outside the project is seen or leaves.
#[test]
fn a_project_whose_files_are_swapped_for_links_leaks_nothing() {
    for place in Place::each() {
        let bait = place.write("outside/victim", BAIT);
        place.write("p/victim", "honest");
        place.write("p/folder/victim", "honest");
        symlink(&bait, place.path("p/spare")).unwrap();
        symlink(place.path("outside"), place.path("p/spare-folder")).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| swap_until(&is_over, &place.path("p")));
            for run in 0..count("RINGFENCE_RACES", 5) {
                let out = place.path(&format!("out-{run}"));
                let script =
                    "cat victim spare folder/victim spare-folder/victim; for f in victim folder/victim; do echo more >> $f; done; true";
                let done = place.ringfence(&[
                    "run",
                    "--project",
                    "p",
                    "--export",
                    "changes.patch",
                    "--out",
                    out.to_str().unwrap(),
                    "--",
                    "bash",
                    "-c",
                    script,
                ]);
                assert!(!format!("{done:?}").contains(BAIT), "{done:?}");
                assert!(contents(&out).iter().all(|(_, text)| !text.contains(BAIT)));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(contents(&place.home()).iter().all(|(_, text)| !text.contains(BAIT)));
        place.assert_clean();
    }
}

fn swap_until(is_over: &AtomicBool, project: &Path) {
    while !is_over.load(Ordering::Relaxed) {
        for (one, other) in [("victim", "spare"), ("folder", "spare-folder")] {
            renameat_with(CWD, project.join(one), CWD, project.join(other), RenameFlags::EXCHANGE).unwrap();
        }
    }
}
