//! Many at once: 50 runs side by side in one home, all correct, nothing left.

use std::fs;

use crate::support::{Place, binary, outcome};

#[test]
fn fifty_runs_side_by_side_are_all_correct() {
    for place in Place::each() {
        place.write("data.csv", "1\n2\n3\n");
        let start = |number: usize| {
            let script = format!("wc -l < /inputs/data.csv; echo {number} > r; id -u; sleep 0.{}", number % 5);
            let mut command = place.command(binary());
            command.args(["run", "--quiet", "--input", "data.csv", "--export", "r", "--out"]).arg(place.path(&format!("out/{number}")));
            command
                .args(["--", "bash", "-c", &script])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        };
        place.folder("out");
        let children: Vec<_> = (0..50).map(start).collect();
        for (number, child) in children.into_iter().enumerate() {
            let outcome = outcome(child.wait_with_output().unwrap());
            assert_eq!((outcome.stdout.as_str(), outcome.status), ("3\n1000\n", 0), "{number}: {outcome:?}");
            assert_eq!(fs::read_to_string(place.path(&format!("out/{number}/r"))).unwrap(), format!("{number}\n"));
        }
        place.assert_clean();
        assert_eq!(fs::read_dir(place.home().join("runs")).unwrap().count(), 50);
        let listed = place.ringfence(&["evidence", "ls", "--json", "--most", "100"]).stdout;
        assert_eq!(listed.matches("\"run\":").count(), 50);
    }
}
