//! `ringfence audit` as its users see it. That it finds what was weakened is shown by the tests of `control`, which can weaken a sandbox.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Place, binary, eventually, is_root, outcome};

fn audit(place: &Place, options: &[&str]) -> (Value, String, i32) {
    let outcome = place.ringfence(&[&["audit", "--format", "json"], options].concat());
    let audit = serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"));
    (audit, outcome.stderr, outcome.status)
}

#[test]
fn each_shipped_profile_that_can_run_is_as_it_declares() {
    for place in Place::each() {
        for profile in ["data-analysis", "base", "web-research", "code-change"] {
            let (audit, said, status) = audit(&place, &["--profile", profile]);
            assert_eq!((&audit["differences"], status), (&json!(0), 0), "{:?} {said} {audit:#}", place.user);
            assert!(said.contains("everything measured is as declared"), "{said}");
            assert_eq!(audit["answers"].as_array().unwrap().len(), 8);
            // What a host outside, or a package, would be needed for is named and is no difference.
            let items = audit["answers"].as_array().unwrap().iter().flat_map(|answer| answer["items"].as_array().unwrap());
            let unmeasured = items.filter(|item| item["is_measured"] == json!(false)).count();
            let wanted = BTreeMap::from([("web-research", 1), ("code-change", 3)]).get(profile).copied().unwrap_or(0);
            assert_eq!(unmeasured, wanted, "{audit:#}");
            assert!(wanted == 0 || said.contains(&format!(", {wanted} not measured; ")), "{said}");
        }
        place.assert_clean();
    }
}

#[test]
fn the_runs_of_the_probe_are_on_record() {
    for place in Place::each() {
        let (audit, _, _) = audit(&place, &[]);
        let runs = audit["runs"].as_array().unwrap();
        assert_eq!(runs.len(), std::fs::read_dir(place.home().join("runs")).unwrap().count());
        for run in runs {
            let run = run.as_str().unwrap();
            let verified = place.ringfence(&["evidence", "verify", run]);
            assert_eq!(verified.status, 0, "{verified:?}");
            let shown = place.ringfence(&["evidence", "show", "--json", run]).stdout;
            assert!(shown.contains("ringfence-probe") && shown.contains("data-analysis"), "{shown}");
        }
    }
}

/// The token is bait: it would be named by a difference, and its value stands in no record.
#[test]
fn a_secret_of_the_callers_environment_is_looked_for_and_not_told() {
    for place in Place::each() {
        let mut command = place.command(binary());
        let outcome = outcome(command.env("SECRET_TOKEN", "CANARY_ENV").args(["audit", "--format", "json"]).output().unwrap());
        assert_eq!(outcome.status, 0, "{outcome:?}");
        assert!(outcome.stdout.contains("none of the caller's 1") && !outcome.stdout.contains("CANARY_ENV"), "{outcome:?}");
        let found = place.command("/bin/grep").args(["-rl", "CANARY_ENV"]).arg(place.home()).output().unwrap();
        assert!(found.stdout.is_empty(), "{found:?}");
    }
}

#[test]
fn an_audit_is_as_its_schema_says_and_as_readable_in_each_form() {
    for place in Place::each() {
        let schema: Value = serde_json::from_str(&place.ringfence(&["schema", "audit"]).stdout).unwrap();
        let (audit, _, _) = audit(&place, &[]);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> = validator.iter_errors(&audit).map(|e| e.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?} in {audit}");
        let table = place.ringfence(&["audit"]).stdout;
        let markdown = place.ringfence(&["audit", "--format", "md"]).stdout;
        for answer in audit["answers"].as_array().unwrap() {
            let title = format!("{}. {}", answer["number"], answer["question"].as_str().unwrap());
            assert!(table.contains(&title) && markdown.contains(&format!("## {title}\n")), "{title}");
            for item in answer["items"].as_array().unwrap() {
                let capability = item["capability"].as_str().unwrap();
                assert!(table.contains(capability) && markdown.contains(&format!("| ok | {capability} |")), "{capability}: {markdown}");
            }
        }
    }
}

/// On record, as any refused run; and the profiles that can run are named.
#[test]
fn a_profile_that_cannot_run_is_refused() {
    for place in Place::each() {
        for (profile, why) in [
            ("no-code", "no execution surface"),
            ("scratch", "asks for `open` package installs"),
            ("governed-ops", "needs governed tools"),
            ("high-assurance", "needs tier `gvisor`"),
            ("no-such-profile", "there is no profile"),
        ] {
            let outcome = place.ringfence(&["audit", "--profile", profile]);
            assert!(outcome.status == 125 && outcome.stderr.contains(why) && outcome.stdout.is_empty(), "{outcome:?}");
            let names_others = outcome.stderr.contains("these run here: data-analysis, code-change, web-research");
            assert!(names_others || profile == "no-such-profile", "{outcome:?}");
        }
        assert_eq!(std::fs::read_dir(place.home().join("runs")).unwrap().count(), 4);
    }
}

/// What hangs below `/usr` is seen by every run: bait that is laid there is found inside, and that is an error.
#[test]
fn a_difference_is_named_and_is_an_error() {
    if !is_root() {
        println!("skipped: only root can lay bait below /usr");
        return;
    }
    for place in Place::each() {
        let below_usr = tempfile::tempdir_in("/usr/local").unwrap();
        std::fs::set_permissions(below_usr.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        place.give(below_usr.path());
        // With inputs or a project the run would be refused: they would be part of the image.
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout.replace("name = \"data-analysis\"", "name = \"bare\"");
        place.write(
            "bare.toml",
            shown.replace("project = \"view\"", "project = \"none\"").replace("inputs = \"named\"", "inputs = \"none\""),
        );
        let mut command = place.command(binary());
        command.env("TMPDIR", below_usr.path()).args(["audit", "--profile", "bare.toml", "--format", "md"]);
        let outcome = outcome(command.output().unwrap());
        let named =
            outcome.stderr.lines().find(|line| line.starts_with("ringfence: 1. files of the host: declared none, measured /usr/local/"));
        assert!(outcome.status == 1 && named.is_some(), "{outcome:?}");
        assert!(
            outcome.stdout.contains("| DIFFERS | files of the host | none | /usr/local/") && outcome.stderr.contains("1 difference;"),
            "{outcome:?}"
        );
    }
}

#[test]
fn an_audit_that_is_interrupted_leaves_nothing() {
    for place in Place::each() {
        let temporary = place.folder("temporary");
        let mut command = place.command(binary());
        command.env("TMPDIR", &temporary).args(["audit"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let audit = command.spawn().unwrap();
        eventually("the first run", || place.home().join("runs").read_dir().is_ok_and(|mut runs| runs.next().is_some()));
        rustix::process::kill_process(rustix::process::Pid::from_child(&audit), rustix::process::Signal::INT).unwrap();
        let outcome = outcome(audit.wait_with_output().unwrap());
        assert!(outcome.status == 125 && outcome.stderr.contains("interrupted"), "{outcome:?}");
        assert_eq!(temporary.read_dir().unwrap().count(), 0);
        place.assert_clean();
    }
}
