//! Sandboxes that are paused and go on, and what is kept of them.

use serde_json::{Value, json};

use super::wire::{Sandbox, control, until};
use crate::rig::Rig;

fn post(sandbox: &Sandbox<'_>, path: &str, body: &Value) -> u16 {
    control(sandbox.rig, &sandbox.rig.e2b_key, "POST", &format!("/sandboxes/{}/{path}", sandbox.id), Some(body)).status
}

fn detail(sandbox: &Sandbox<'_>) -> Value {
    control(sandbox.rig, &sandbox.rig.e2b_key, "GET", &format!("/sandboxes/{}", sandbox.id), None).json()
}

#[test]
fn files_alone_are_kept_and_the_detail_says_so() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    assert!(detail(&sandbox)["pauseMode"].is_null());
    // Some clients ask for memory whenever they pause: it is no ask.
    for (at, body) in [json!({}), json!({"memory": true}), json!({"memory": false})].iter().enumerate() {
        sandbox.write("kept", &at.to_string());
        let boot = sandbox.read("/proc/sys/kernel/random/boot_id");
        assert_eq!(post(&sandbox, "pause", body), 204, "{body}");
        assert_eq!((&detail(&sandbox)["state"], &detail(&sandbox)["pauseMode"]), (&json!("paused"), &json!("filesystem")), "{body}");
        assert_eq!(post(&sandbox, "pause", body), 409, "{body}");
        assert_eq!(post(&sandbox, "connect", &json!({"timeout": 60})), 201, "{body}");
        assert_eq!((&detail(&sandbox)["state"], sandbox.read("kept")), (&json!("running"), at.to_string()), "{body}");
        assert!(detail(&sandbox)["pauseMode"].is_null(), "{body}");
        let again = sandbox.read("/proc/sys/kernel/random/boot_id");
        assert!(again.len() == 37 && again != boot, "what goes on has booted anew: {again}");
    }
}

#[test]
fn a_snapshot_has_its_name_and_others_begin_with_it() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("f", "first");
    let path = format!("/sandboxes/{}/snapshots", sandbox.id);
    let made = control(&rig, &rig.e2b_key, "POST", &path, Some(&json!({"name": "book", "memory": true})));
    assert_eq!((made.status, &made.json()["names"]), (201, &json!(["book"])));
    sandbox.write("f", "second");
    let other = Sandbox::with(&rig, json!({"templateID": "book"}));
    assert_eq!((other.read("f"), sandbox.read("f")), ("first".to_owned(), "second".to_owned()));
}

#[test]
fn what_is_asked_to_be_kept_is_kept_when_the_time_is_up() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"autoPause": true}));
    sandbox.write("f", "x");
    assert_eq!(post(&sandbox, "timeout", &json!({"timeout": 0})), 204);
    until("it is paused", || detail(&sandbox)["state"] == "paused");
    assert_eq!(post(&sandbox, "connect", &json!({"timeout": 60})), 201);
    assert_eq!(sandbox.read("f"), "x");
}
