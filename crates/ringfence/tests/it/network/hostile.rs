//! A program that floods the broker: what it costs outside is bounded, and the run ends as every run does.

use std::fs;

use serde_json::Value;

use super::Net;
use crate::support::binary;

/// Runs a command line, and says on a last line the most descriptors and the most memory (KiB) that its process had.
const WATCHED: &str = r#"
"$@" > report.json & pid=$!
while [ -e /proc/$pid/fd ] && kill -0 $pid 2>/dev/null; do
    count=$(ls /proc/$pid/fd 2>/dev/null | wc -l); [ "$count" -gt "${most:-0}" ] && most=$count
    memory=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/$pid/status 2>/dev/null); [ -n "$memory" ] && held=$memory
    sleep 0.05
done
wait $pid
cat report.json
echo "$most $held""#;

#[test]
fn a_flood_costs_a_bounded_amount_and_ends_with_the_run() {
    let rules = ["https://*.wild.example.com:443", "tcp://good.example.com:8080", "http://good.example.com:80"];
    for net in Net::each(&rules, "") {
        net.place.write("flood.py", include_str!("../../data/flood.py"));
        net.place.write("internet/www/big", vec![b'x'; 400_000]);
        let program = binary().display().to_string();
        let limits = ["--limit", "wall=15s"];
        let command = ["--input", "flood.py", "--", "python3", "/inputs/flood.py", "20000", "4000", "100", "5000"];
        let own = [program.as_str(), "--config", "settings.toml", "run", "--json", "--profile", "net.toml"];
        let outcome = net.amid(&[&["/bin/bash", "-c", WATCHED, "watched"], &own[..], &limits, &command].concat());
        let (report, used) = outcome.stdout.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{outcome:?}"));
        let report: Value = serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let said: Vec<&str> = report["stdout"].as_str().unwrap().lines().collect();
        assert_eq!(said, ["tunnels 100", "answered 20000", "refused 4000", "connected"], "{report}");
        assert_eq!(report["end"]["limit"], "wall", "{report}");
        let used: Vec<u64> = used.split(' ').map(|word| word.parse().unwrap()).collect();
        assert!(used[0] < 1000 && used[1] < 300 << 10, "descriptors and KiB: {used:?}");
        let run = report["run"].as_str().unwrap();
        let events = fs::read_to_string(net.place.home().join("runs").join(run).join("events.jsonl")).unwrap();
        let count = |kind: &str| events.matches(&format!("\"{kind}\"")).count();
        assert!(count("network_opened") >= 100 && count("network_opened") == count("network_closed"), "{events}");
        assert!(events.len() < 2 << 20 && report["network"].as_array().unwrap().len() <= 1000, "{} bytes", events.len());
        assert_eq!(net.place.ringfence(&["evidence", "verify", run]).status, 0);
        net.place.assert_clean();
    }
}
