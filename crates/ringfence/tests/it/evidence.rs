//! The record: chained, signed, verifiable by tools that never heard of ringfence, and free of secrets.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::Value;

use crate::support::{Place, User, outcome};

/// A run with an input and an artifact: its name and folder.
fn sealed(place: &Place) -> (String, PathBuf) {
    let data = place.write("data.csv", "a,b\n");
    let (report, status) = place.report(&["--input", data.to_str().unwrap(), "--export", "r"], &["bash", "-c", "cp /inputs/data.csv r"]);
    assert_eq!(status, 0, "{report}");
    let run = report["run"].as_str().unwrap().to_owned();
    let folder = place.home().join("runs").join(&run);
    (run, folder)
}

#[test]
fn an_untouched_record_verifies_here_and_elsewhere_with_the_public_key_alone() {
    for place in Place::each() {
        let (run, folder) = sealed(&place);
        let verified = place.ringfence(&["evidence", "verify", &run]);
        assert!(verified.status == 0 && verified.stdout.contains("1 artifacts exported, 1 checked here"), "{verified:?}");
        let key = place.home().join("keys/evidence.pub");
        let elsewhere = Place::new(place.user);
        let mut command = elsewhere.command(crate::support::binary());
        command.args(["evidence", "verify"]).arg(&folder).arg("--key").arg(&key);
        let verified = outcome(command.output().unwrap());
        assert!(verified.status == 0 && verified.stdout.contains(&run), "{verified:?}");
    }
}

#[test]
fn a_changed_byte_anywhere_is_found() {
    for place in Place::each() {
        let (run, folder) = sealed(&place);
        for file in ["events.jsonl", "statement.dsse.json"] {
            let path = folder.join(file);
            let whole = fs::read(&path).unwrap();
            for at in (0..whole.len()).step_by(whole.len() / 25) {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                fs::write(&path, &changed).unwrap();
                let found = place.ringfence(&["evidence", "verify", &run]);
                assert!(found.status == 1 && found.stderr.contains(file) && found.stderr.contains("hint:"), "{file} byte {at}: {found:?}");
            }
            fs::write(&path, whole).unwrap();
        }
        let artifact = artifacts(&place).remove(0);
        fs::write(&artifact, "changed").unwrap();
        let found = place.ringfence(&["evidence", "verify", &run]);
        assert!(found.status == 1 && found.stderr.contains("is not what was exported"), "{found:?}");
    }
}

fn artifacts(place: &Place) -> Vec<PathBuf> {
    let folders = fs::read_dir(place.home().join("artifacts")).unwrap().flatten();
    folders.flat_map(|f| fs::read_dir(f.path()).unwrap().flatten()).map(|e| e.path()).collect()
}

/// The envelope's signature, checked by a tool that knows nothing of DSSE: over the bytes that the protocol defines.
#[test]
fn openssl_verifies_the_signature() {
    let place = Place::new(User::Ordinary);
    let (_, folder) = sealed(&place);
    let envelope: Value = serde_json::from_slice(&fs::read(folder.join("statement.dsse.json")).unwrap()).unwrap();
    let decode = |text: &Value| base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap();
    let payload = decode(&envelope["payload"]);
    let kind = envelope["payloadType"].as_str().unwrap();
    let signed = [format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).as_bytes(), &payload].concat();
    place.write("signed", signed);
    place.write("signature", decode(&envelope["signatures"][0]["sig"]));
    let key = place.home().join("keys/evidence.pub");
    let verify = |data: &str| {
        let mut command = place.command("openssl");
        command.args(["pkeyutl", "-verify", "-pubin", "-rawin", "-sigfile", "signature", "-in", data, "-inkey"]).arg(&key);
        outcome(command.output().unwrap())
    };
    assert!(verify("signed").stdout.contains("Signature Verified Successfully"), "{:?}", verify("signed"));
    place.write("other", "something else");
    assert_ne!(verify("other").status, 0);
    let id = place
        .command("bash")
        .args(["-c", &format!("openssl pkey -pubin -in {} -outform DER | sha256sum", key.display())])
        .output()
        .unwrap();
    assert!(outcome(id).stdout.starts_with(envelope["signatures"][0]["keyid"].as_str().unwrap()));
}

/// securesystemslib, the reference library of in-toto, from a virtual environment that `make test` sets up.
#[test]
fn securesystemslib_verifies_the_envelope() {
    let python = format!("{}/../../target/test-tools/bin/python", env!("CARGO_MANIFEST_DIR"));
    assert!(Path::new(&python).exists(), "`make test` sets up {python}");
    let place = Place::new(User::Ordinary);
    let (run, folder) = sealed(&place);
    let program = "import json, sys\n\
        from cryptography.hazmat.primitives.serialization import load_pem_public_key\n\
        from securesystemslib.dsse import Envelope\n\
        from securesystemslib.signer import SSlibKey\n\
        raw = json.load(open(sys.argv[1]))\n\
        key = SSlibKey.from_crypto(load_pem_public_key(open(sys.argv[2], 'rb').read()), keyid=raw['signatures'][0]['keyid'])\n\
        envelope = Envelope.from_dict(raw)\n\
        assert list(envelope.verify([key], 1)) == [key.keyid]\n\
        statement = json.loads(envelope.payload)\n\
        print(statement['_type'], statement['predicate']['run'], statement['subject'][0]['name'])\n\
        raw = json.load(open(sys.argv[1]))\n\
        raw['payload'] = raw['payload'][:-8] + 'AAAAAAA='\n\
        try: Envelope.from_dict(raw).verify([key], 1); print('ACCEPTED A FORGERY')\n\
        except Exception as e: print(type(e).__name__)\n";
    let output = std::process::Command::new(python)
        .args(["-c", program])
        .arg(folder.join("statement.dsse.json"))
        .arg(place.home().join("keys/evidence.pub"))
        .output()
        .unwrap();
    let outcome = outcome(output);
    assert_eq!(outcome.stdout, format!("https://in-toto.io/Statement/v1 {run} events.jsonl\nVerificationError\n"), "{outcome:?}");
}

#[test]
fn the_record_tells_what_happened_and_no_secret() {
    for place in Place::each() {
        let mut command = place.command(crate::support::binary());
        command.env("DEPLOY_TOKEN", "CANARY-TOKEN-VALUE").args([
            "run",
            "--json",
            "--env",
            "MODE=CANARY-MODE",
            "--",
            "echo",
            "--token=CANARY-TOKEN-VALUE",
        ]);
        let report: Value = serde_json::from_str(&outcome(command.output().unwrap()).stdout).unwrap();
        let events = place.ringfence(&["evidence", "show", "--json", report["run"].as_str().unwrap()]).stdout;
        assert!(!events.contains("CANARY"), "{events}");
        let kinds: Vec<String> =
            events.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["event"].as_str().unwrap().to_owned()).collect();
        let wanted = [
            "run_requested",
            "run_granted",
            "sandbox_creating",
            "sandbox_created",
            "command_starting",
            "command_ended",
            "sandbox_ended",
            "run_ended",
        ];
        assert_eq!(kinds, wanted);
        assert!(events.contains("\"environment\":[\"MODE\"]") && events.contains("--token=***"), "{events}");
    }
}

#[test]
fn refused_and_failed_runs_leave_a_sealed_record_too() {
    for place in Place::each() {
        for (options, kind) in
            [(vec!["--limit", "memory=9GiB"], "refused"), (vec!["--input", "missing"], "refused"), (vec!["--limit", "wall=100ms"], "limit")]
        {
            let (report, _) = place.report(&options, &["sleep", "5"]);
            assert_eq!(report["end"]["kind"], kind);
            assert_eq!(place.ringfence(&["evidence", "verify", report["run"].as_str().unwrap()]).status, 0);
        }
    }
}

#[test]
fn a_lost_or_damaged_index_is_made_anew() {
    let place = Place::new(User::Ordinary);
    let (run, _) = sealed(&place);
    let listed = |place: &Place| place.ringfence(&["artifact", "ls", "--json"]).stdout;
    let before = listed(&place);
    assert!(before.contains(&run));
    for damage in
        [b"".as_slice(), b"this is no database, and long enough to be read as one header of a hundred bytes at the very least...."]
    {
        let index = place.home().join("index.sqlite");
        for ending in ["", "-wal", "-shm"] {
            fs::remove_file(format!("{}{ending}", index.display())).unwrap_or_default();
        }
        if !damage.is_empty() {
            fs::write(&index, damage).unwrap();
            place.give(&index);
        }
        assert_eq!(listed(&place), before);
    }
    let aside = fs::read_dir(place.home()).unwrap().flatten().filter(|e| e.file_name().to_string_lossy().contains("damaged-")).count();
    assert_eq!(aside, 1);
}

/// What this version writes, later versions must read: a record that is kept with the tests.
#[test]
fn a_record_of_format_1_still_verifies() {
    let place = Place::new(User::Ordinary);
    let kept = format!("{}/tests/records/format-1", env!("CARGO_MANIFEST_DIR"));
    let verified = place.ringfence(&["evidence", "verify", &kept, "--key", &format!("{kept}/evidence.pub")]);
    assert_eq!(verified.status, 0, "{verified:?}");
}
