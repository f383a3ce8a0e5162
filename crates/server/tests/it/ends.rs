//! How a server ends, and what the next one finds.

use std::time::{Duration, Instant};

use ringfence_server::ServeOptions;
use serde_json::json;

use crate::rig::{Rig, options};

#[test]
fn a_server_that_stops_waits_a_while_and_seals_what_it_ends() {
    let mut rig = Rig::with(ServeOptions { drain: Duration::from_secs(5), ..options() });
    let short = rig.post("/v1/runs", &json!({"command": ["sleep", "0.2"]})).json()["run"].as_str().unwrap().to_owned();
    let long = rig.post("/v1/runs", &json!({"command": ["sleep", "60"]})).json()["run"].as_str().unwrap().to_owned();
    let begun = Instant::now();
    rig.stop().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(4900), "{:?}", begun.elapsed());
    assert!(std::net::TcpStream::connect(rig.address).is_err());
    let key = rig.key.clone();
    let folder = std::mem::replace(&mut rig.folder, tempfile::tempdir().unwrap());
    assert_eq!(std::fs::read_dir(folder.path().join("home/live")).unwrap().count(), 0, "every run is sealed");
    let next = Rig::over(folder, options());
    for (run, end) in
        [(short, json!({"kind": "exited", "code": 0})), (long, json!({"kind": "failed", "step": "interrupted", "cause": "SIGTERM"}))]
    {
        let view = next.ask_as(&key, "GET", &format!("/v1/runs/{run}"), "", None).json();
        assert_eq!(view["end"], end, "{view}");
        assert_eq!(next.ask_as(&key, "GET", &format!("/v1/runs/{run}/evidence"), "", None).json()["verification"]["is_intact"], true);
    }
}

#[test]
fn what_an_earlier_server_left_of_clients_is_removed() {
    let folder = Rig::new().into_folder();
    let left = folder.path().join("home/work/handed-over-x");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("0"), "somebody's").unwrap();
    let _rig = Rig::over(folder, options());
    assert!(!left.exists());
}
