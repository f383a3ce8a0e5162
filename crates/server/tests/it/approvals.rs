//! From an artifact to its effect over HTTP: a key asks, and only what a person signed decides.

use std::fs;

use ringfence_control::{DECISION_TYPE, NewKey, NewPerson, Persons};
use ringfence_evidence::{Digest, SigningKey, Statement, Subject};
use ringfence_store::Home;
use serde_json::{Value, json};

use crate::rig::{Rig, options};

/// A server whose home has a target `reports`, and a registered person with a key.
fn with_a_target() -> (Rig, SigningKey) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    fs::create_dir(folder.path().join("reports")).unwrap();
    let reports = folder.path().join("reports").display().to_string();
    fs::write(home.settings(), format!("[targets.reports]\nkind = \"directory\"\nfolder = \"{reports}\"\n")).unwrap();
    let key = SigningKey::from_seed(&[7; 32]);
    let anna = NewPerson { name: "anna".parse().unwrap(), identity: None, groups: ["maintainers".parse().unwrap()].into() };
    Persons::of(&home).add(anna, NewKey::Given(key.public())).unwrap();
    (Rig::over(folder, options()), key)
}

/// A promotion that waits, and the approval that it waits for.
fn asked(rig: &Rig, key: &str) -> (String, Value) {
    let body = json!({"command": ["sh", "-c", "echo all is well > report.md"], "exports": ["report.md"]}).to_string();
    let report = rig.ask_as(key, "POST", "/v1/runs?wait=true", "", Some(&body)).json();
    let body = json!({"artifact": report["artifacts"][0]["sha256"], "target": "reports", "message": "The report"}).to_string();
    let promotion = rig.ask_as(key, "POST", "/v1/promotions", "", Some(&body));
    assert_eq!((promotion.status, &promotion.json()["state"]), (201, &json!("waiting")), "{promotion:?}");
    let approval = promotion.json()["approvals"][0]["approval"].as_str().unwrap().to_owned();
    (
        promotion.json()["promotion"].as_str().unwrap().to_owned(),
        rig.ask_as(key, "GET", &format!("/v1/approvals/{approval}"), "", None).json(),
    )
}

/// A decision about what is shown, in its envelope.
fn signed(view: &Value, person: &str, verdict: &str, key: &SigningKey) -> Value {
    let digest = |name: &str| view[name].as_str().unwrap().parse::<Digest>().unwrap();
    let approval = view["approval"].as_str().unwrap();
    assert_eq!(Digest::of(view["request"].as_str().unwrap().as_bytes()), digest("digest"));
    assert_eq!(Digest::of(view["preview"].as_str().unwrap().as_bytes()), digest("preview_digest"));
    let said = json!({"approval": approval, "person": person, "verdict": verdict, "decided_at": "2026-11-30T00:00:00.000Z"});
    let subject = vec![Subject::new(approval, digest("digest")), Subject::new("preview.txt", digest("preview_digest"))];
    let envelope = Statement::new(subject, DECISION_TYPE, said).sign(key).unwrap();
    json!({"person": person, "envelope": serde_json::from_slice::<Value>(&envelope).unwrap()})
}

#[test]
fn what_a_person_signed_takes_effect_and_a_key_alone_does_not() {
    let (rig, anna) = with_a_target();
    let (promotion, view) = asked(&rig, &rig.key);
    let place = format!("/v1/approvals/{}/decisions", view["approval"].as_str().unwrap());
    assert_eq!(rig.get("/v1/approvals").json()["approvals"][0]["subject"], json!(promotion));
    let made = rig.folder.path().join("reports/report.md");

    let mallory = SigningKey::from_seed(&[8; 32]);
    let other = signed(
        &json!({"approval": view["approval"], "request": "x", "digest": Digest::of(b"x").to_string(), "preview": "", "preview_digest": Digest::of(b"").to_string()}),
        "anna",
        "approve",
        &anna,
    );
    let mut changed = signed(&view, "anna", "approve", &anna);
    changed["envelope"]["payload"] = signed(&view, "anna", "deny", &anna)["envelope"]["payload"].clone();
    let mut unsigned = signed(&view, "anna", "approve", &anna);
    unsigned["envelope"]["signatures"] = json!([]);
    for (body, status) in [
        (signed(&view, "anna", "approve", &mallory), 422),
        (signed(&view, "anna", "perhaps", &anna), 422),
        (signed(&view, "nobody", "approve", &anna), 403),
        (other, 422),
        (changed, 422),
        (unsigned, 422),
        (json!({"person": "anna", "verdict": "approve"}), 422),
    ] {
        let reply = rig.post(&place, &body);
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(!made.exists());
    }
    let decided = rig.post(&place, &signed(&view, "anna", "approve", &anna));
    assert_eq!((decided.status, &decided.json()["promotion"]["state"]), (201, &json!("applied")), "{decided:?}");
    assert_eq!(fs::read_to_string(&made).unwrap(), "all is well\n");
    assert_eq!(rig.post(&place, &signed(&view, "anna", "deny", &anna)).code(), "conflict");
    assert_eq!(rig.get(&format!("/v1/promotions/{promotion}")).json()["state"], "applied");
    assert_eq!(rig.get("/v1/promotions").json()["promotions"].as_array().unwrap().len(), 1);
    assert_eq!(rig.get("/v1/approvals").json()["approvals"], json!([]));
}

#[test]
fn what_one_tenant_asks_no_other_sees_or_decides() {
    let (rig, anna) = with_a_target();
    let (one, two) = (rig.tenant("one"), rig.tenant("two"));
    let (promotion, view) = asked(&rig, &one);
    let approval = view["approval"].as_str().unwrap();
    let body = signed(&view, "anna", "deny", &anna).to_string();
    for key in [&two, &rig.key] {
        assert_eq!(rig.ask_as(key, "GET", "/v1/promotions", "", None).json()["promotions"], json!([]));
        assert_eq!(rig.ask_as(key, "GET", "/v1/approvals", "", None).json()["approvals"], json!([]));
        assert_eq!(rig.ask_as(key, "GET", &format!("/v1/promotions/{promotion}"), "", None).status, 404);
        assert_eq!(rig.ask_as(key, "GET", &format!("/v1/approvals/{approval}"), "", None).status, 404);
        assert_eq!(rig.ask_as(key, "POST", &format!("/v1/approvals/{approval}/decisions"), "", Some(&body)).status, 404);
    }
    let decided = rig.ask_as(&one, "POST", &format!("/v1/approvals/{approval}/decisions"), "", Some(&body));
    assert_eq!(decided.json()["promotion"]["state"], "denied", "{decided:?}");
}

#[test]
fn profiles_are_told_of_and_measured() {
    let rig = Rig::new();
    let list = rig.get("/v1/profiles").json();
    for profile in list["profiles"].as_array().unwrap() {
        let view = rig.get(&format!("/v1/profiles/{}", profile["name"].as_str().unwrap())).json();
        assert_eq!(Digest::of(view["text"].as_str().unwrap().as_bytes()).to_string(), profile["digest"].as_str().unwrap());
    }
    assert_eq!(rig.get("/v1/matrix").json()["profiles"].as_array().unwrap().len(), list["profiles"].as_array().unwrap().len());
    assert_eq!(rig.get("/v1/agents/me").json(), rig.get("/v1/agents").json()["agents"][0]);
    assert_eq!(rig.post("/v1/audit", &json!({"profile": "no-code"})).code(), "audit_refused");
    assert_eq!(rig.post("/v1/audit", &json!({"profile": "nothing"})).code(), "invalid_value");
    let audit = rig.post("/v1/audit", &json!({"profile": "data-analysis"}));
    assert_eq!((audit.status, &audit.json()["differences"]), (200, &json!(0)), "{audit:?}");
}
