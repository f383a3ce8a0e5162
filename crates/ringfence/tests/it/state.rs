//! State by the real binary, as both users: from run to run, seen, taken away, and whole after a kill at any moment.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Place, binary};

fn listed(place: &Place) -> Vec<Value> {
    serde_json::from_str(&place.ringfence(&["state", "ls", "--json"]).stdout).unwrap()
}

#[test]
fn what_a_run_leaves_under_a_name_the_next_one_finds() {
    for place in Place::each() {
        let odd = "echo one > note; echo t > /tmp/t; ln -s /etc/passwd out; echo 1 > $'new\\nline'; echo 2 > $'bad\\xff'; mkfifo pipe; \
            mkdir shut; echo c > shut/closed; chmod 000 shut/closed shut";
        for storage in ["memory", "disk"] {
            assert_eq!(place.bash(&["--state", storage, "--storage", storage], odd).status, 0);
            let look = "cat note /tmp/t $'new\\nline' $'bad\\xff'; readlink out; test ! -e pipe; stat -c %U:%a note /tmp shut; \
                chmod 700 shut; stat -c %a shut/closed; chmod 400 shut/closed; cat shut/closed";
            let (report, status) = place.report(&["--state", storage, "--storage", storage], &["bash", "-c", look]);
            assert_eq!(
                (&report["stdout"], status),
                (&json!("one\nt\n1\n2\n/etc/passwd\nagent:644\nagent:1777\nagent:0\n0\nc\n"), 0),
                "{report}"
            );
            assert_eq!((&report["state"]["name"], report["state"]["saved"].as_array().map(Vec::len)), (&json!(storage), Some(1)));
        }
        let names: Vec<Value> = listed(&place).into_iter().map(|row| row["name"].clone()).collect();
        assert_eq!(names, ["memory", "disk"]);
        assert!(place.ringfence(&["state", "ls"]).stdout.contains("memory"));
        assert!(place.ringfence(&["state", "sweep", "--older-than", "30d"]).stdout.starts_with("0 states removed"));
        assert_eq!(place.ringfence(&["state", "rm", "memory"]).status, 0);
        let missing = place.ringfence(&["state", "rm", "memory"]);
        assert!(missing.status == 125 && missing.stderr.contains("there is no state `memory` here"), "{missing:?}");
        assert!(place.ringfence(&["state", "sweep", "--older-than", "0s"]).stdout.starts_with("1 states removed"));
        assert_eq!((listed(&place).len(), place.bash(&["--state", "disk"], "ls -A").stdout.as_str()), (0, ""));
        for wrong in [&["state", "rm", "../x"][..], &["state", "sweep", "--older-than", "3"], &["run", "--state", "A", "--", "true"]] {
            let told = place.ringfence(wrong);
            assert!(told.status == 125 && told.stderr.contains("hint:"), "{wrong:?}: {told:?}");
        }
        place.assert_clean();
    }
}

#[test]
fn a_kill_while_a_state_is_saved_leaves_the_old_or_the_new_one() {
    for place in Place::each() {
        assert_eq!(place.bash(&["--state", "big"], "echo 0 > round").status, 0);
        let mut last = 0;
        for round in 1..=4u64 {
            let script = format!("head -c 48M /dev/zero > big; echo {round} > round; echo said");
            let mut victim = place
                .command(binary())
                .args(["run", "--quiet", "--state", "big", "--", "bash", "-c", &script])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = std::io::BufReader::new(victim.stdout.take().unwrap());
            std::io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
            std::thread::sleep(Duration::from_millis(15 * (round - 1)));
            victim.kill().unwrap();
            victim.wait().unwrap();
            let found = place.bash(&["--state", "big"], "cat round");
            let kept: u64 = found.stdout.trim().parse().unwrap_or_else(|_| panic!("{found:?}"));
            assert!(found.status == 0 && (kept == last || kept == round), "{kept} after round {round}, {last} before");
            last = kept;
            let left: Vec<_> = fs::read_dir(place.home().join("states")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("draft-")), "{left:?}");
            assert_eq!(fs::read_dir(place.home().join("states/named/big")).unwrap().count(), 1);
        }
        place.assert_clean();
    }
}
