//! Each limit meets a hostile program. Ending limits end it with the right reason and status; bounding limits hold, and are listed where the host
//! can tell.

use serde_json::{Value, json};

use crate::support::{Place, User, eventually, sleepers};

fn python(place: &Place, options: &[&str], program: &str) -> (Value, i32) {
    place.report(options, &["python3", "-c", program])
}

fn limit(name: &str) -> Value {
    json!({"kind": "limit", "limit": name})
}

#[test]
fn the_wall_limit_ends_a_program_that_ignores_signals_and_its_daemons() {
    for place in Place::each() {
        let mark = format!("31.{:?}7", place.user as u8);
        let script = format!("trap '' TERM INT HUP; (setsid sleep {mark} &) ; sleep {mark}; sleep {mark}");
        let (report, status) = place.report(&["--limit", "wall=700ms"], &["bash", "-c", &script]);
        assert_eq!((&report["end"], status), (&limit("wall"), 124), "{report}");
        eventually("death of the daemon", || sleepers(&mark).is_empty());
        place.assert_clean();
    }
}

#[test]
fn output_before_a_time_limit_is_kept() {
    for place in Place::each() {
        let (report, _) = place.report(&["--limit", "wall=700ms"], &["bash", "-c", "echo ONE; sleep 30"]);
        assert_eq!((&report["stdout"], &report["end"]), (&json!("ONE\n"), &limit("wall")));
    }
}

#[test]
fn the_cpu_limit_counts_the_whole_tree() {
    for place in Place::each() {
        let spin = "import os\nfor i in range(3): os.fork()\nwhile True: pass";
        let (report, status) = python(&place, &["--limit", "cpu=1s", "--limit", "wall=30s"], spin);
        assert_eq!((&report["end"], status), (&limit("cpu"), 124), "{report}");
        assert!(report["usage"]["cpu_ms"].as_u64().unwrap() >= 1000);
    }
}

#[test]
fn the_memory_limit_ends_one_that_takes_too_much() {
    for place in Place::each() {
        let take = "held = []\nfor i in range(100): held.append(b'x' * (4 << 20))\nprint('TOOK IT ALL')";
        let (report, status) = python(&place, &["--limit", "memory=96MiB"], take);
        assert_eq!((&report["end"], status), (&limit("memory"), 137), "{:?} {report}", place.user);
        assert_eq!(report["stdout"], "");
    }
}

#[test]
fn one_big_allocation_ends_by_the_memory_limit_too() {
    for place in Place::each() {
        let (report, status) = python(&place, &["--limit", "memory=64MiB"], "x = b'a' * 200_000_000\nimport time; time.sleep(2)");
        assert_eq!((&report["end"], status), (&limit("memory"), 137), "{:?} {report}", place.user);
    }
}

#[test]
fn the_memory_limit_counts_many_small_ones_together() {
    for place in Place::each() {
        let take =
            "import os, time\nfor i in range(6):\n if os.fork() == 0:\n  x = b'x' * (32 << 20); time.sleep(5); os._exit(0)\ntime.sleep(5)";
        let (report, _) = python(&place, &["--limit", "memory=96MiB"], take);
        assert_eq!(report["end"], limit("memory"), "{:?} {report}", place.user);
    }
}

#[test]
fn memory_backed_files_count_as_memory() {
    for place in Place::each() {
        let fill = "import time\nf = open('/dev/shm/x', 'wb')\nfor i in range(200): f.write(b'x' * (1 << 20)); f.flush()\ntime.sleep(1)\nprint('FILLED')";
        let (report, _) = python(&place, &["--limit", "memory=96MiB"], fill);
        assert_eq!(report["end"], limit("memory"), "{:?} {report}", place.user);
    }
}

#[test]
fn a_fork_bomb_meets_the_process_limit_and_the_program_goes_on() {
    for place in Place::each() {
        let bomb = "import os, time, signal\nkids = []\ntry:\n for i in range(120):\n  pid = os.fork()\n  if pid == 0: time.sleep(5); os._exit(0)\n  kids.append(pid)\nexcept OSError as e: print('stopped', len(kids))\ntime.sleep(0.1)\nfor k in kids: os.kill(k, signal.SIGKILL)";
        let (report, status) = python(&place, &["--limit", "processes=40"], bomb);
        assert_eq!((report["stdout"].as_str().unwrap(), status), ("stopped 39\n", 0), "{:?} {report}", place.user);
        assert_eq!(report["limits_reached"], json!(["processes"]), "{:?}", place.user);
    }
}

#[test]
fn disk_and_files_are_bounded_over_workspace_tmp_and_shm_together() {
    for place in Place::each() {
        let fill = "n = 0\ntry:\n for f in ('/workspace/a', '/tmp/b', '/dev/shm/c'):\n  with open(f, 'wb') as h:\n   for i in range(6): h.write(b'x' * (1 << 20)); h.flush(); n += 1\nexcept OSError as e: print(n, e.errno)\nimport time; time.sleep(0.2)";
        let (report, status) = python(&place, &["--limit", "disk=8MiB"], fill);
        assert_eq!((report["stdout"].as_str().unwrap(), status), ("8 28\n", 0), "{report}");
        assert_eq!(report["limits_reached"], json!(["disk"]));
        let many = "import os\nn = 0\ntry:\n for i in range(500): open(f'/tmp/{i}', 'w').close(); n += 1\nexcept OSError as e: print(n <= 200, e.errno)\nimport time; time.sleep(0.2)";
        let (report, _) = python(&place, &["--limit", "files=200"], many);
        assert_eq!((&report["stdout"], &report["limits_reached"]), (&json!("True 28\n"), &json!(["files"])), "{report}");
    }
}

#[test]
fn a_sparse_file_is_bounded_too() {
    for place in Place::each() {
        let (report, _) =
            python(&place, &["--limit", "disk=8MiB"], "try: open('s', 'wb').truncate(64 << 30)\nexcept OSError as e: print(e.errno)");
        assert_eq!(report["stdout"], "27\n", "{report}");
    }
}

#[test]
fn open_files_are_bounded() {
    for place in Place::each() {
        let open =
            "held = []\ntry:\n for i in range(500): held.append(open('/dev/null'))\nexcept OSError as e: print(len(held) < 64, e.errno)";
        let (report, _) = python(&place, &["--limit", "open-files=64"], open);
        assert_eq!(report["stdout"], "True 24\n", "{report}");
    }
}

#[test]
fn output_is_kept_to_its_limit_and_counted_in_full() {
    for place in Place::each() {
        let (report, status) = python(&place, &["--limit", "output=64KiB"], "import sys\nsys.stdout.write('x' * 5_000_000 + 'END')");
        assert_eq!((&report["stdout_bytes"], &report["output_truncated"], status), (&json!(5_000_003), &json!(true), 0));
        let kept = report["stdout"].as_str().unwrap();
        assert!(kept.len() < (64 << 10) + 100 && kept.ends_with("END") && kept.contains("bytes cut here"), "{}", kept.len());
        assert_eq!(report["limits_reached"], json!(["output"]));
        let streamed = place.ringfence(&["run", "--limit", "output=64KiB", "--", "python3", "-c", "print('x' * 5_000_000)"]);
        assert!(streamed.stdout.len() < (64 << 10) + 100, "{}", streamed.stdout.len());
    }
}

#[test]
fn a_share_of_processors_is_held_or_refused() {
    for place in Place::each() {
        let spin = "import time\nuntil = time.monotonic() + 1.0\nwhile time.monotonic() < until: pass\nprint(time.process_time() < 0.75)";
        let (report, status) = python(&place, &["--limit", "cpus=0.5"], spin);
        match report["end"]["kind"].as_str().unwrap() {
            "exited" => assert_eq!((&report["stdout"], &report["grades"]["cpus"]), (&json!("True\n"), &json!("kernel"))),
            _ => assert_eq!((&report["end"]["layer"], status), (&json!("host"), 125), "{report}"),
        }
    }
}

#[test]
fn a_background_child_that_holds_the_pipe_does_not_hold_the_run() {
    for place in Place::each() {
        let begun = std::time::Instant::now();
        let (report, status) = place.report(&[], &["bash", "-c", "sleep 47.11 & echo DONE"]);
        assert_eq!((&report["stdout"], status), (&json!("DONE\n"), 0));
        assert!(begun.elapsed().as_secs() < 20, "the call waited for the child");
        eventually("death of the child", || sleepers("47.11").is_empty());
    }
}

#[test]
fn a_limit_of_one_run_does_not_stick_to_the_next() {
    for place in Place::each() {
        python(&place, &["--limit", "memory=32MiB"], "pass");
        let (report, _) = python(&place, &["--limit", "memory=512MiB"], "x = b'x' * (200 << 20); print(len(x))");
        assert_eq!(report["stdout"], format!("{}\n", 200 << 20), "{report}");
    }
}

/// The grade reached stands in doctor, report and evidence; a profile that wants more is refused.
#[test]
fn a_grade_that_cannot_be_had_is_refused() {
    for place in Place::each() {
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
        place.write(
            "strict.toml",
            shown.replace("memory = \"watched\"", "memory = \"kernel\"").replace("name = \"data-analysis\"", "name = \"strict\""),
        );
        let (report, status) = place.report(&["--profile", "strict.toml"], &["true"]);
        let doctor = place.ringfence(&["doctor", "--json"]).stdout;
        let has_cgroup = doctor.contains("\"grade kernel\"");
        match has_cgroup {
            true => assert_eq!((&report["grades"]["memory"], status), (&json!("kernel"), 0), "{report}"),
            false => {
                let rule = "the memory limit can only be watched here, the profile accepts no less than kernel";
                assert_eq!((&report["end"]["rule"], status), (&json!(rule), 125), "{report}");
                assert!(!report["end"]["hint"].as_str().unwrap().is_empty());
            }
        }
        if place.user == User::Root {
            assert!(has_cgroup, "as root the tests want a cgroup: {doctor}");
        }
        let run = report["run"].as_str().unwrap();
        let events = place.ringfence(&["evidence", "show", "--json", run]).stdout;
        assert!(!has_cgroup || events.contains("\"memory\":\"kernel\""), "{events}");
    }
}

/// What a program might hide from a supervisor that sums: children that nobody waits for, and shared memory that is not resident.
#[test]
fn watched_limits_see_through_hiding() {
    for place in Place::each() {
        let children = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n if os.fork() == 0:\n  end = time.process_time() + 0.5\n  while time.process_time() < end: pass\n  os._exit(0)\n time.sleep(0.55)";
        let (report, status) = python(&place, &["--limit", "cpu=1500ms", "--limit", "wall=20s"], children);
        assert_eq!((&report["end"], status), (&limit("cpu"), 124), "{:?} {report}", place.user);
        let shared = "import mmap, time\nheld = []\nfor i in range(12):\n m = mmap.mmap(-1, 16 << 20); m.write(b'x' * (16 << 20)); m.madvise(mmap.MADV_DONTNEED); held.append(m); time.sleep(0.05)\ntime.sleep(3)\nprint('HELD')";
        let (report, _) = python(&place, &["--limit", "memory=96MiB"], shared);
        assert_eq!(report["end"], limit("memory"), "{:?} {report}", place.user);
    }
}
