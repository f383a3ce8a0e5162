//! A wall clock that is turned while a run goes on: limits hold by a clock that is never set, and a record verifies whatever the time.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::faults::{Fault, faulty};
use crate::support::{Place, outcome};

#[test]
fn a_clock_that_jumps_changes_no_limit_and_no_verification() {
    for place in Place::each() {
        let begun = Instant::now();
        let arguments = ["run", "--json", "--limit", "wall=1s", "--", "sleep", "20"];
        let done = outcome(faulty(&place, Fault::Clock, &arguments).output().unwrap());
        assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        let report: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!((&report["end"]["limit"], done.status), (&"wall".into(), 124), "{done:?}");
        assert!((1000..10_000).contains(&report["usage"]["wall_ms"].as_u64().unwrap()), "{report}");

        let run = report["run"].as_str().unwrap();
        let events = place.ringfence(&["evidence", "show", "--json", run]).stdout;
        let lines: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.windows(2).any(|two| two[0]["at"].as_str() > two[1]["at"].as_str()), "the clock was not turned: {events}");
        assert!(lines.windows(2).all(|two| two[0]["elapsed_ms"].as_u64() <= two[1]["elapsed_ms"].as_u64()), "{events}");
        assert_eq!(place.ringfence(&["evidence", "verify", run]).status, 0);
        assert_eq!(outcome(faulty(&place, Fault::Clock, &["evidence", "verify", run]).output().unwrap()).status, 0);
        place.assert_clean();
    }
}
