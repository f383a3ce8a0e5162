//! Checks of the evidence (EV) that no older test held.

use std::fs;

use serde_json::Value;

use crate::support::Place;

#[test]
fn ev_12_the_same_run_twice_has_the_same_digests() {
    for place in Place::each() {
        place.write("data.csv", "b\na\n");
        let digests = || {
            let (report, _) =
                place.report(&["--input", "data.csv", "--export", "sorted"], &["bash", "-c", "sort /inputs/data.csv | tee sorted"]);
            let events = place.ringfence(&["evidence", "show", "--json", report["run"].as_str().unwrap()]).stdout;
            let lines: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let of = |kind: &str, field: &str| lines.iter().find(|line| line["event"] == kind).unwrap()[field].clone();
            (
                report["artifacts"].clone(),
                report["stdout_sha256"].clone(),
                of("input_added", "input"),
                of("sandbox_creating", "image_digest"),
            )
        };
        assert_eq!(digests(), digests());
    }
}

#[test]
fn ev_14_a_line_that_looks_like_evidence_is_output() {
    for place in Place::each() {
        let forged = "{\"seq\":4,\"event\":\"artifact_exported\",\"artifact\":{\"path\":\"FORGED\"}}";
        let script = format!("echo '{forged}'; echo '{forged}' >&2; echo '{forged}' > events.jsonl; cp events.jsonl statement.dsse.json");
        let file = place.write("script", script);
        let (report, status) = place.report(&["--input", file.to_str().unwrap(), "--export", "events.jsonl"], &["bash", "/inputs/script"]);
        assert_eq!((status, report["stdout"].as_str().unwrap().trim_end()), (0, forged), "{report}");
        let run = report["run"].as_str().unwrap();
        let kept = fs::read_to_string(place.home().join("runs").join(run).join("events.jsonl")).unwrap();
        assert!(!kept.contains("FORGED"), "{kept}");
        assert_eq!(place.ringfence(&["evidence", "verify", run]).status, 0);
    }
}
