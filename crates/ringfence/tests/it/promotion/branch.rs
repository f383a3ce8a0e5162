//! A fix goes from a failing test to the branch, and back; a report goes to a folder.

use std::fs;
use std::path::Path;

use super::rig::{CHECK, FIX, Rig, payload, python};
use crate::support::{User, outcome, users};

#[test]
fn a_fix_is_tested_approved_and_applied_as_it_was_tested() {
    for user in users() {
        let rig = Rig::new(user);
        let base = rig.tip();
        let asked = rig.promote(&rig.patch(&format!("! {CHECK} 2>/dev/null && {FIX} && {CHECK}")), "main");
        assert_eq!((asked["state"].as_str(), rig.tip()), (Some("waiting"), base.clone()), "nothing happens before somebody agrees");
        let approval = Rig::approval(&asked);
        let shown = rig.place.ringfence(&["approval", "show", &approval]).stdout;
        let tree = asked["result"]["tree"].as_str().unwrap();
        for said in [tree, base.as_str(), "-    return sum(numbers) + 1", "+    return sum(numbers)", "passed: python3 tests/test_calc.py"]
        {
            assert!(shown.contains(said), "{said}: {shown}");
        }
        assert_eq!(rig.approve(&approval, "anna").status, 0);
        let done = rig.show(&asked);
        assert_eq!(done["state"], "applied", "{done}");
        assert_eq!(rig.shell("git -C app.git rev-parse main^{tree} main^").lines().collect::<Vec<_>>(), [tree, &base]);
        let tested = payload(&rig.evidence(&asked).join("test-result.dsse.json"));
        assert_eq!(tested["subject"][0]["digest"]["gitTree"], tree, "the tree of the branch is the tested one");
        assert_eq!((&tested["predicate"]["result"], &tested["predicate"]["passedTests"][0]), (&"PASSED".into(), &CHECK.into()));
        rig.assert_verifies(&asked);
        rig.place.assert_clean();
    }
}

/// securesystemslib and openssl, which know nothing of ringfence.
#[test]
fn public_tools_verify_every_statement_of_a_promotion() {
    let rig = Rig::new(User::Ordinary);
    let done = rig.promoted(&rig.patch(FIX), "main");
    let folder = rig.evidence(&done);
    let home_key = rig.place.home().join("keys/evidence.pub");
    let anna = rig.place.path("anna.pub");
    rig.shell("openssl pkey -in nobody-home/.config/ringfence/anna.key -pubout -out anna.pub");
    let mut verified = 0;
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with(".dsse.json") {
            continue;
        }
        let key = if name.starts_with("decision-") { &anna } else { &home_key };
        verify_with_securesystemslib(&entry.path(), key);
        verify_with_openssl(&rig, &entry.path(), key);
        verified += 1;
    }
    assert_eq!(verified, 4, "provenance, test result, decision, receipt");
    let receipt = payload(&folder.join("receipt.dsse.json"));
    let provenance = payload(&folder.join("provenance.dsse.json"));
    assert_eq!(receipt["predicate"]["state"], "applied");
    assert_eq!(receipt["subject"][1]["digest"]["gitCommit"], rig.tip());
    assert_eq!(provenance["predicateType"], "https://slsa.dev/provenance/v1");
    assert_eq!(provenance["subject"][0]["digest"]["sha256"], done["artifact"].as_str().unwrap().trim_start_matches("sha256:"));
}

fn verify_with_securesystemslib(envelope: &Path, key: &Path) {
    let program = "import json, sys\n\
        from cryptography.hazmat.primitives.serialization import load_pem_public_key\n\
        from securesystemslib.dsse import Envelope\n\
        from securesystemslib.signer import SSlibKey\n\
        raw = json.load(open(sys.argv[1]))\n\
        key = SSlibKey.from_crypto(load_pem_public_key(open(sys.argv[2], 'rb').read()), keyid=raw['signatures'][0]['keyid'])\n\
        assert list(Envelope.from_dict(raw).verify([key], 1)) == [key.keyid]\n";
    let done = outcome(python().args(["-c", program]).arg(envelope).arg(key).output().unwrap());
    assert_eq!(done.status, 0, "{}: {done:?}", envelope.display());
}

fn verify_with_openssl(rig: &Rig, envelope: &Path, key: &Path) {
    let script = format!(
        "python3 -c 'import json,base64,sys; e=json.load(open(sys.argv[1])); p=base64.b64decode(e[\"payload\"]); t=e[\"payloadType\"].encode(); \
         open(\"pae\",\"wb\").write(b\"DSSEv1 %d %s %d \" % (len(t), t, len(p)) + p); open(\"sig\",\"wb\").write(base64.b64decode(e[\"signatures\"][0][\"sig\"]))' {} && \
         openssl pkeyutl -verify -rawin -pubin -inkey {} -in pae -sigfile sig",
        envelope.display(),
        key.display()
    );
    assert!(rig.shell(&script).contains("Signature Verified Successfully"));
}

#[test]
fn a_report_takes_the_place_of_the_old_one_which_is_kept() {
    for user in users() {
        let rig = Rig::new(user);
        let reports = rig.place.path("reports/report.md");
        let first = rig.promoted(&rig.report("first"), "reports");
        assert_eq!((first["state"].as_str(), fs::read_to_string(&reports).unwrap().as_str()), (Some("applied"), "first\n"));
        let second = rig.promoted(&rig.report("second"), "reports");
        assert_eq!(fs::read_to_string(&reports).unwrap(), "second\n");
        let old = second["base"]["sha256"].as_str().unwrap();
        assert_eq!(rig.place.ringfence(&["artifact", "get", old]).stdout, "first\n");
        assert_eq!(fs::read_dir(rig.place.path("reports")).unwrap().count(), 1, "nothing else is in the folder");
        rig.assert_verifies(&second);
        rig.place.assert_clean();
    }
}

#[test]
fn pr_12_what_was_applied_is_taken_back_by_a_promotion_of_its_own() {
    for user in users() {
        let rig = Rig::new(user);
        let base_tree = rig.shell("git -C app.git rev-parse main^{tree}");
        let done = rig.promoted(&rig.patch(FIX), "main");
        let before = fs::read(rig.evidence(&done).join("receipt.dsse.json")).unwrap();
        let undo = rig.place.ringfence(&["promotion", "undo", done["promotion"].as_str().unwrap(), "--json"]);
        let undo: serde_json::Value = serde_json::from_str(&undo.stdout).unwrap();
        assert_eq!(rig.approve(&Rig::approval(&undo), "anna").status, 0);
        assert_eq!(rig.shell("git -C app.git rev-parse main^{tree}"), base_tree);
        assert_eq!(rig.shell("git -C app.git rev-list --count main").trim(), "3");
        assert_eq!(fs::read(rig.evidence(&done).join("receipt.dsse.json")).unwrap(), before, "the first evidence is untouched");
        assert_eq!(rig.show(&done)["undone_by"], undo["promotion"]);
        rig.assert_verifies(&undo);

        for text in ["first", "second"] {
            rig.promoted(&rig.report(text), "reports");
        }
        let listed = rig.place.ringfence(&["promotion", "ls", "--json"]).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let undo = rig.place.ringfence(&["promotion", "undo", listed[0]["promotion"].as_str().unwrap(), "--json"]);
        let undo: serde_json::Value = serde_json::from_str(&undo.stdout).unwrap();
        assert_eq!(rig.approve(&Rig::approval(&undo), "anna").status, 0);
        assert_eq!(fs::read_to_string(rig.place.path("reports/report.md")).unwrap(), "first\n");
    }
}
