//! Agents: only what was approved runs, and only while somebody answers for it. A refusal of an agent leaves no run.

use std::fs;
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::support::{Outcome, Place, binary, outcome};

/// An agent file, in which some text is replaced.
fn file(place: &Place, from: &str, to: &str) -> String {
    let text = "id = \"writer\"\nname = \"Report writer\"\npurpose = \"weekly reports\"\nowner = \"anna\"\nteam = \"data\"\n\
                profiles = [\"data-analysis\", \"mine\"]\nreview-by = 9999-12-31\n\n[bound.limits]\nmemory = \"64MiB\"\n";
    assert!(from.is_empty() || text.contains(from));
    place.write("writer.toml", text.replacen(from, to, 1)).to_string_lossy().into_owned()
}

fn add(place: &Place, from: &str, to: &str) -> Outcome {
    place.ringfence(&["agent", "add", &file(place, from, to)])
}

fn agent(place: &Place, arguments: &[&str]) -> Outcome {
    place.ringfence(&[&["agent"], arguments].concat())
}

fn run(place: &Place, options: &[&str]) -> Outcome {
    place.ringfence(&[&["run", "--agent", "writer"], options, &["--", "echo", "RAN"]].concat())
}

/// A home with a person, a profile of its own and an agent that waits for approval.
fn waiting(place: &Place) {
    place.folder("nobody-home");
    assert_eq!(place.ringfence(&["person", "add", "anna"]).status, 0);
    write_profile(place, "1min");
    for outcome in [add(place, "", ""), agent(place, &["submit", "writer"])] {
        assert_eq!(outcome.status, 0, "{outcome:?}");
    }
}

fn write_profile(place: &Place, wall: &str) {
    let shipped = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
    let wall_line = shipped.lines().find(|line| line.starts_with("wall")).unwrap();
    let text = shipped.replace("name = \"data-analysis\"", "name = \"mine\"").replace(wall_line, &format!("wall = \"{wall}\""));
    place.write("home/profiles/mine.toml", text);
}

fn record(place: &Place) -> Value {
    serde_json::from_str(&fs::read_to_string(place.home().join("agents/writer.json")).unwrap()).unwrap()
}

/// Approval in the place of the persons who give it: the record says what it says after one.
fn approve(place: &Place) {
    let mut record = record(place);
    record["state"] = "active".into();
    for revision in record["revisions"].as_array_mut().unwrap() {
        let state = match revision["state"].as_str().unwrap() {
            "active" => "superseded",
            "pending" => "active",
            other => other,
        };
        revision["state"] = state.to_owned().into();
    }
    place.write("home/agents/writer.json", record.to_string());
}

fn runs(place: &Place) -> usize {
    fs::read_dir(place.home().join("runs")).unwrap().count()
}

/// Refused with a way out, before anything of a run was there.
fn assert_refused(place: &Place, outcome: &Outcome, what: &str) {
    assert_eq!((outcome.status, outcome.stdout.as_str()), (125, ""), "{outcome:?}");
    assert!(outcome.stderr.contains(what), "wanted {what:?} in {:?}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: ") && !outcome.stderr.contains('\x1b'), "{outcome:?}");
    place.assert_clean();
}

fn assert_runs(place: &Place, options: &[&str]) {
    let outcome = run(place, options);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "RAN\n"), "{outcome:?}");
}

#[test]
fn only_what_was_approved_runs_and_its_version_is_on_record() {
    for place in Place::each() {
        place.folder("nobody-home");
        assert_refused(&place, &run(&place, &[]), "agent `writer` is not registered");
        assert_eq!(place.ringfence(&["person", "add", "anna"]).status, 0);
        write_profile(&place, "1min");
        assert_eq!(add(&place, "", "").status, 0);
        assert_refused(&place, &run(&place, &[]), "agent `writer` is draft and may not run");
        let submitted = agent(&place, &["submit", "writer"]);
        assert!(submitted.stdout.starts_with("agent `writer` is pending; revision 1 waits for approval, version sha256:"), "{submitted:?}");
        assert_refused(&place, &run(&place, &[]), "agent `writer` is pending and may not run");
        assert_refused(&place, &run(&place, &["--explain"]), "agent `writer` is pending and may not run");
        assert_eq!(runs(&place), 0);
        approve(&place);
        assert_runs(&place, &[]);
        assert_runs(&place, &["--profile", "mine"]);
        let name = fs::read_dir(place.home().join("runs")).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
        let events = fs::read_to_string(place.home().join("runs").join(&name).join("events.jsonl")).unwrap();
        let requested: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
        let version = &record(&place)["revisions"][0]["version"];
        assert!(requested.to_string().contains(&format!("\"agent_version\":{version}")), "{requested}");
        assert!(requested.to_string().contains("\"owner\":\"anna\""), "{requested}");
        assert_eq!(place.ringfence(&["evidence", "verify", &name]).status, 0);
    }
}

#[test]
fn an_agents_bound_narrows_what_its_profiles_allow() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        let above = run(&place, &["--limit", "memory=65MiB"]);
        assert!(above.status == 125 && above.stderr.contains("above the bound of 64 MiB (set by the agent)"), "{above:?}");
        assert_refused(
            &place,
            &run(&place, &["--profile", "base"]),
            "agent `writer` may not run profile `base`; it may run data-analysis, mine",
        );
        assert_eq!(place.ringfence(&["run", "--profile", "base", "--", "true"]).status, 0, "`me` may");
    }
}

#[test]
fn a_suspended_agent_a_retired_one_and_one_whose_owner_left_do_not_run() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        assert_eq!(agent(&place, &["suspend", "writer", "--reason", "strange \x1b[31mruns"]).stdout, "agent `writer` is suspended\n");
        assert_refused(&place, &run(&place, &[]), "agent `writer` is suspended and may not run");
        let shown = agent(&place, &["show", "writer"]).stdout;
        assert!(shown.contains("suspend: strange \\u{1b}[31mruns"), "{shown}");
        assert_refused(&place, &agent(&place, &["submit", "writer"]), "is suspended and cannot be submitted");
        let resumed = agent(&place, &["resume", "writer"]);
        assert!(resumed.stdout.contains("is pending; revision 2 waits for approval"), "{resumed:?}");
        assert_refused(&place, &run(&place, &[]), "agent `writer` is pending and may not run");
        approve(&place);
        assert_runs(&place, &[]);
        assert_eq!(place.ringfence(&["person", "retire", "anna"]).status, 0);
        assert_refused(&place, &run(&place, &[]), "has no active owner: person `anna`");
        assert_refused(&place, &add(&place, "weekly", "monthly"), "has no active owner");
        assert_eq!(agent(&place, &["retire", "writer"]).stdout, "agent `writer` is retired\n");
        assert_refused(&place, &run(&place, &[]), "agent `writer` is retired and may not run");
        assert_refused(&place, &agent(&place, &["resume", "writer"]), "is retired and cannot be resumed");
        assert_eq!(runs(&place), 1);
    }
}

#[test]
fn a_profile_that_changed_needs_a_new_approval() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        write_profile(&place, "2min");
        let changed = run(&place, &["--profile", "mine"]);
        assert_refused(&place, &changed, "profile `mine` changed since version sha256:");
        assert!(changed.stderr.contains("hint: submit it again"), "{changed:?}");
        assert_runs(&place, &["--profile", "data-analysis"]);
        let own = fs::read_to_string(place.home().join("profiles/mine.toml")).unwrap();
        place.write("elsewhere.toml", own.replace("2min", "1h"));
        assert_refused(&place, &run(&place, &["--profile", "./elsewhere.toml"]), "profile `mine` changed");
        assert!(add(&place, "", "").stdout.contains("revision 2 is a draft"), "the file is the same, and its profile is not");
        assert_eq!(agent(&place, &["submit", "writer"]).status, 0);
        assert_refused(&place, &run(&place, &["--profile", "mine"]), "profile `mine` changed");
        approve(&place);
        assert_runs(&place, &["--profile", "mine"]);
    }
}

#[test]
fn a_new_draft_changes_nothing_while_the_old_revision_serves() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        assert!(add(&place, "64MiB", "32MiB").stdout.contains("revision 2 is a draft"));
        assert!(add(&place, "64MiB", "32MiB").stdout.contains("nothing changed since revision 2, which is draft"));
        assert_runs(&place, &["--limit", "memory=64MiB"]);
        assert!(agent(&place, &["submit", "writer"]).stdout.starts_with("agent `writer` is active; revision 2 waits"));
        assert_runs(&place, &["--limit", "memory=64MiB"]);
        approve(&place);
        let above = run(&place, &["--limit", "memory=64MiB"]);
        assert!(above.status == 125 && above.stderr.contains("above the bound of 32 MiB (set by the agent)"), "{above:?}");
        let states: Vec<Value> = record(&place)["revisions"].as_array().unwrap().iter().map(|r| r["state"].clone()).collect();
        assert_eq!(states, [json!("superseded"), json!("active")]);
    }
}

#[test]
fn after_the_day_of_its_review_an_agent_does_not_run() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        assert_runs(&place, &[]);
        let mut changed = record(&place);
        let revision = &mut changed["revisions"][0];
        let text = revision["record"].as_str().unwrap().replace("9999-12-31", "2024-02-29");
        let digests = revision["profile_digests"].as_object().unwrap();
        let digests: String = digests.iter().map(|(name, digest)| format!("{name} = {digest}\n")).collect();
        let whole = format!("revision = 1\n{text}\n[profile-digests]\n{digests}");
        let version: String = sha2::Sha256::digest(whole.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        revision["record"] = text.into();
        place.write("home/agents/writer.json", changed.to_string());
        assert_refused(&place, &run(&place, &[]), "revision 1 is not what its version was made of");
        changed["revisions"][0]["version"] = format!("sha256:{version}").into();
        place.write("home/agents/writer.json", changed.to_string());
        assert_refused(&place, &run(&place, &[]), "agent `writer` was to be reviewed by 2024-02-29");
        assert_refused(&place, &add(&place, "9999-12-31", "2024-02-29"), "which is not in the future");
    }
}

#[test]
fn the_local_agent_is_made_at_first_use_and_an_old_home_keeps_its_owner() {
    for place in Place::each() {
        let children: Vec<_> = (0..8)
            .map(|_| place.command(binary()).args(["run", "--", "true"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
            .collect();
        for child in children {
            let outcome = outcome(child.wait_with_output().unwrap());
            assert_eq!(outcome.status, 0, "{outcome:?}");
        }
        assert_eq!(fs::read_dir(place.home().join("persons")).unwrap().count(), 1);
        let listed: Value = serde_json::from_str(&agent(&place, &["ls", "--json"]).stdout).unwrap();
        assert_eq!((&listed[0]["id"], &listed[0]["profiles"], &listed[0]["review_by"]), (&json!("me"), &json!(["*"]), &Value::Null));
        assert_refused(&place, &agent(&place, &["suspend", "me"]), "the local agent `me` is made by ringfence");

        let old = Place::new(place.user);
        old.ringfence(&["doctor"]);
        old.write("home/agents/me.toml", "owner = \"carla\"\n");
        let (report, status) = old.report(&[], &["true"]);
        assert_eq!(status, 0, "{report}");
        let events = fs::read_to_string(old.home().join("runs").join(report["run"].as_str().unwrap()).join("events.jsonl")).unwrap();
        assert!(events.contains("\"owner\":\"carla\"") && !old.home().join("agents/me.toml").exists(), "{events}");
    }
}

/// The start of a run waits for nobody who changes the registry, and opens no database.
#[test]
fn a_run_takes_no_lock_and_opens_no_index() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        let lock = fs::File::open(place.home().join("registry.lock")).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        assert_runs(&place, &[]);
        assert!(!place.home().join("index.sqlite").exists());
    }
}

#[test]
fn a_damaged_record_stops_its_agent_and_no_other() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        let path = place.home().join("agents/writer.json");
        let whole = fs::read_to_string(&path).unwrap();
        for text in
            [&whole[..whole.len() / 2], "", "{}", &whole.replace("\"writer\"", "\"reader\""), &whole.replacen('{', "{\"more\":1,", 1)]
        {
            fs::write(&path, text).unwrap();
            for outcome in [run(&place, &[]), agent(&place, &["ls"]), agent(&place, &["suspend", "writer"]), add(&place, "", "")] {
                assert_refused(&place, &outcome, path.canonicalize().unwrap().to_str().unwrap());
            }
            assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        }
        fs::write(&path, &whole).unwrap();
        let owner = place.home().join("persons/anna.json");
        fs::write(&owner, "{").unwrap();
        assert_refused(&place, &run(&place, &[]), "persons/anna.json` does not read");
    }
}

#[test]
fn what_was_granted_stands_beside_what_was_used() {
    for place in Place::each() {
        waiting(&place);
        approve(&place);
        let usage = |place: &Place| {
            let shown: Value = serde_json::from_str(&agent(place, &["show", "writer", "--json"]).stdout).unwrap();
            shown["usage"].as_array().unwrap().iter().map(|u| (u["runs"].clone(), u["is_stale"].clone())).collect::<Vec<_>>()
        };
        assert_eq!(usage(&place), [(json!(0), json!(true)), (json!(0), json!(true))]);
        assert_eq!(run(&place, &["--limit", "memory=1GiB"]).status, 125);
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        assert_eq!(usage(&place), [(json!(0), json!(true)), (json!(0), json!(true))], "refused, or of another agent");
        assert_runs(&place, &[]);
        assert_eq!(usage(&place), [(json!(1), json!(false)), (json!(0), json!(true))]);
        let shown = agent(&place, &["show", "writer"]).stdout;
        assert!(shown.contains("[profile-digests]") && shown.contains("stale"), "{shown}");
    }
}

#[test]
fn what_a_file_says_wrong_is_refused_with_its_place() {
    for place in Place::each() {
        place.folder("nobody-home");
        assert_refused(&place, &add(&place, "", ""), "has no active owner: person `anna` is not registered");
        assert_eq!(place.ringfence(&["person", "add", "anna"]).status, 0);
        for (from, to, what) in [
            ("\"writer\"", "\"../writer\"", "writer.toml:1:6: `../writer` is not the name of an agent"),
            ("\"writer\"", "\"me\"", "the local agent `me` is made by ringfence"),
            ("Report writer", "R\\u001b[31m", "writer.toml:2:8: is not a line"),
            ("\"mine\"", "\"*\"", "writer.toml:6:12: only the local agent `me` may run any profile"),
            ("\"mine\"", "\"nope\"", "names a profile that cannot be used: there is no profile `nope`"),
            ("9999-12-31", "\"soon\"", "writer.toml:7:13: `soon` is not a date"),
            ("team", "teem", "writer.toml:5:1: unknown field `teem`"),
            ("memory", "memroy", "writer.toml:10:1: unknown field `memroy`"),
        ] {
            assert_refused(&place, &add(&place, from, to), what);
        }
        assert_refused(&place, &agent(&place, &["add", "missing.toml"]), "reading `missing.toml`");
        for bad in ["../x", "a\x1b[31m", "A", ""] {
            for command in ["submit", "show", "suspend", "resume", "retire"] {
                assert_refused(&place, &agent(&place, &[command, bad]), "is not the name of an agent");
            }
            assert_refused(&place, &place.ringfence(&["run", "--agent", bad, "--", "true"]), "is not the name of an agent");
        }
        let kept: Vec<_> = fs::read_dir(place.home().join("agents")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(kept.iter().all(|name| name == "me.json"), "only the local agent is there: {kept:?}");
    }
}

#[test]
fn many_at_once_lose_nothing() {
    for place in Place::each() {
        waiting(&place);
        let start = |number: usize| {
            let text = fs::read_to_string(place.path("writer.toml")).unwrap();
            let path = place.write(&format!("many/{number}.toml"), text.replace("weekly", &format!("weekly {number}")));
            let mut command = place.command(binary());
            command.args(["agent", "add"]).arg(path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..20).map(start).collect();
        for child in children {
            let outcome = outcome(child.wait_with_output().unwrap());
            assert_eq!(outcome.status, 0, "{outcome:?}");
        }
        let record = record(&place);
        let numbers: Vec<u64> = record["revisions"].as_array().unwrap().iter().map(|r| r["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=21).collect::<Vec<_>>());
        assert_eq!(record["revisions"].as_array().unwrap().iter().filter(|r| r["state"] == "draft").count(), 1);
    }
}
