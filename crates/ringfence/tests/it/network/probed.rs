//! The checks about a proxy, with a network granted: nothing is contained for want of a network, and the allowed name is reached.

use serde_json::Value;

use super::Net;

const BAIT: &str = r#"{"evil": ["93.184.216.99", 5432], "evil_name": "stranger.test", "allowed_name": "friend.test",
    "allowed": ["93.184.216.34", 5432], "allowed_odd_port": 8443, "meta": ["169.254.169.254", 5432],
    "tcp4": ["127.0.0.1", 8012], "tcp6": ["::1", 8012]}"#;

const CHECKS: &str = "NET-01,NET-02,NET-08,NET-13,NET-14,NET-15,NET-17,NET-18,NET-19";

fn answers(text: &str) -> Vec<(String, String, String)> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let field = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    lines.map(|line| (field(&line, "id"), field(&line, "outcome"), field(&line, "detail"))).collect()
}

#[test]
fn net_18_an_allowed_name_is_reached_and_every_check_holds_where_a_network_is_granted() {
    for net in Net::each(&["tcp://friend.test:5432"], "") {
        net.place.write("bait.json", BAIT);
        net.place.write("probe.py", include_str!("../../data/probe.py"));
        let script = format!("python3 /inputs/probe.py --canary @/inputs/bait.json --only {CHECKS}");
        let report = net.run(&["--input", "probe.py", "--input", "bait.json"], &script);
        let answers = answers(report["stdout"].as_str().unwrap());
        assert_eq!(answers.len(), CHECKS.split(',').count(), "{report}");
        for (id, outcome, detail) in &answers {
            assert_eq!(outcome, "contained", "{id} as {:?}: {detail}", net.place.user);
            let is_reached = detail == "reachable";
            assert_eq!(id == "NET-18", is_reached, "{id}: {detail}");
        }
    }
}

/// What the checks look for is there, and is found where nothing holds it back.
#[test]
fn outside_the_same_bait_is_reached() {
    for net in Net::each(&["tcp://friend.test:5432"], "") {
        let places = "stranger.test/5432 friend.test/8443 169.254.169.254/5432 127.0.0.1/8012 10.9.8.7/5432";
        let script = format!("for place in {places}; do exec 3<>/dev/tcp/$place; echo rf >&3; cat <&3; echo; done");
        let outcome = net.amid(&["/bin/bash", "-c", &script]);
        let wanted = ["RFNET-EVIL", "RFNET FRIEND", "RFNET METADATA", "RFNET HOST", "RFNET PRIVATE"];
        assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), wanted, "{outcome:?}");
    }
}
