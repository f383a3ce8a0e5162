//! The command line: streams, reports, statuses, the matrix and the other commands.

use serde_json::{Value, json};

use crate::support::{Place, User, binary, outcome};

#[test]
fn a_run_streams_exports_and_seals() {
    for place in Place::each() {
        let data = place.write("data.csv", "a,b\n1,2\n3,4\n");
        let program =
            "rows = open('/inputs/data.csv').read().splitlines()\nopen('report.md', 'w').write(f'{len(rows) - 1} rows\\n')\nprint('done')";
        let outcome = place.ringfence(&[
            "run",
            "--input",
            data.to_str().unwrap(),
            "--export",
            "report.*",
            "--out",
            "results",
            "--",
            "python3",
            "-c",
            program,
        ]);
        assert_eq!((outcome.stdout.as_str(), outcome.status), ("done\n", 0), "{outcome:?}");
        assert!(
            outcome.stderr.starts_with("ringfence: run ") && outcome.stderr.contains("artifacts: report.md (7 B); evidence sha256:"),
            "{outcome:?}"
        );
        assert_eq!(std::fs::read_to_string(place.path("results/report.md")).unwrap(), "2 rows\n");
        assert_eq!(std::fs::read_to_string(&data).unwrap(), "a,b\n1,2\n3,4\n");
        place.assert_clean();
    }
}

#[test]
fn the_report_is_as_its_schema_says() {
    for place in Place::each() {
        let schema: Value = serde_json::from_str(&place.ringfence(&["schema", "report"]).stdout).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        place.write("in/.env", "x");
        for (options, command) in [
            (vec!["--export", "r", "--export", "missing"], vec!["bash", "-c", "echo r > r; echo out; echo err >&2"]),
            (vec![], vec!["bash", "-c", "printf '\\377\\376'"]),
            (vec!["--limit", "wall=200ms"], vec!["sleep", "9"]),
            (vec!["--profile", "scratch"], vec!["true"]),
            (vec!["--input", "in"], vec!["no-such-program"]),
        ] {
            let (report, _) = place.report(&options, &command);
            let faults: Vec<String> = validator.iter_errors(&report).map(|e| e.to_string()).collect();
            assert!(faults.is_empty(), "{faults:?} in {report}");
        }
    }
}

#[test]
fn every_end_has_its_kind_and_its_status() {
    for place in Place::each() {
        for (options, command, end, status) in [
            (vec![], vec!["true"], json!({"kind": "exited", "code": 0}), 0),
            (vec![], vec!["bash", "-c", "exit 37"], json!({"kind": "exited", "code": 37}), 37),
            (vec![], vec!["bash", "-c", "kill -SEGV $$"], json!({"kind": "signaled", "signal": "SIGSEGV"}), 139),
            (vec!["--limit", "wall=200ms"], vec!["sleep", "9"], json!({"kind": "limit", "limit": "wall"}), 124),
            (
                vec![],
                vec!["no-such-program"],
                json!({"kind": "failed", "step": "exec", "cause": "No such file or directory (os error 2)"}),
                127,
            ),
            (vec![], vec!["/etc/passwd"], json!({"kind": "failed", "step": "exec", "cause": "Permission denied (os error 13)"}), 126),
            (vec!["--export", "missing"], vec!["true"], json!({"kind": "exited", "code": 0}), 123),
        ] {
            let (report, got) = place.report(&options, &command);
            assert_eq!((&report["end"], got), (&end, status), "{command:?}");
            assert!(report["evidence"].as_str().unwrap().starts_with("sha256:"));
        }
    }
}

#[test]
fn streams_are_passed_byte_for_byte() {
    for place in Place::each() {
        let mut command = place.command(binary());
        command.args(["run", "--quiet", "--", "bash", "-c", "printf '\\377\\376\\000ok'; printf err >&2"]);
        let output = command.output().unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"\xff\xfe\0ok".as_slice(), b"err".as_slice()));
        let (report, _) = place.report(&[], &["bash", "-c", "printf '\\377\\376\\000ok'"]);
        assert_eq!((&report["stdout_base64"], &report["stdout"]), (&json!("//4Ab2s="), &Value::Null));
    }
}

#[test]
fn standard_input_is_empty_unless_asked_for() {
    for place in Place::each() {
        let with_input = |options: &[&str]| {
            let mut command = place.command("/bin/bash");
            let line = format!("head -c 300000 /dev/zero | tr '\\0' x | {} run --quiet {} -- wc -c", binary().display(), options.join(" "));
            outcome(command.args(["-c", &line]).output().unwrap()).stdout
        };
        assert_eq!(with_input(&[]).trim(), "0");
        assert_eq!(with_input(&["--stdin"]).trim(), "300000");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_program_as_in_any_pipe() {
    for place in Place::each() {
        let line = format!("{} run -- yes | head -1; echo ${{PIPESTATUS[0]}}", binary().display());
        let outcome = outcome(place.command("/bin/bash").args(["-c", &line]).output().unwrap());
        assert_eq!(outcome.stdout, "y\n141\n", "{outcome:?}");
        place.assert_clean();
    }
}

#[test]
fn profiles_that_need_what_is_not_there_yet_are_refused_and_never_weakened() {
    for place in Place::each() {
        for (profile, rule) in [
            ("no-code", "profile `no-code` has no execution surface: there is nothing to run a command in"),
            ("scratch", "profile asks for `open` package installs"),
            ("governed-ops", "needs governed tools (*), not available in this version"),
            ("high-assurance", "needs tier `gvisor`, not available in this version"),
        ] {
            let (report, status) = place.report(&["--profile", profile], &["true"]);
            assert_eq!((&report["end"]["rule"], status), (&json!(rule), 125), "{profile}");
        }
        for profile in ["base", "code-change", "web-research"] {
            assert_eq!(place.report(&["--profile", profile], &["true"]).1, 0, "{profile}");
        }
        // The operator's conscious choice.
        let settings = place.write("open.toml", "[ceiling.packages]\npython = \"open\"\nnode = \"open\"\n");
        let outcome = place.ringfence(&["--config", settings.to_str().unwrap(), "run", "--profile", "scratch", "--", "true"]);
        assert_eq!(outcome.status, 0, "{outcome:?}");
    }
}

#[test]
fn work_that_is_too_sensitive_for_the_tier_is_refused() {
    for place in Place::each() {
        let settings = place.write("tiers.toml", "[ceiling.tiers]\nconfidential = \"gvisor\"\n");
        let run = |level: &str| place.ringfence(&["--config", settings.to_str().unwrap(), "run", "--sensitivity", level, "--", "true"]);
        assert_eq!(run("internal").status, 0);
        for level in ["confidential", "restricted"] {
            let outcome = run(level);
            assert!(outcome.status == 125 && outcome.stderr.contains("needs tier `gvisor`"), "{outcome:?}");
        }
        let outcome = run("secret");
        assert!(outcome.status == 125 && outcome.stderr.contains("none of public, internal"), "{outcome:?}");
    }
}

#[test]
fn the_matrix_prints_in_four_formats_with_the_safe_defaults_first() {
    let place = Place::new(User::Ordinary);
    let markdown = place.ringfence(&["matrix", "--format", "md"]).stdout;
    insta::assert_snapshot!("matrix_md", markdown);
    let json: Value = serde_json::from_str(&place.ringfence(&["matrix", "--format", "json"]).stdout).unwrap();
    assert_eq!((json["safe_defaults"].as_array().unwrap().len(), json["profiles"].as_array().unwrap().len()), (5, 8));
    let html = place.ringfence(&["matrix", "--format", "html"]).stdout;
    assert!(html.starts_with("<!doctype html>") && html.find("parse a local CSV") < html.find("open-files"));
    let table = place.ringfence(&["matrix", "--profile", "data-analysis", "--profile", "no-code"]).stdout;
    insta::assert_snapshot!("matrix_table", table);
}

#[test]
fn explain_prints_grant_and_plan_and_runs_nothing() {
    for place in Place::each() {
        let outcome = place.ringfence(&["run", "--explain", "--limit", "memory=64MiB", "--", "true"]);
        assert!(outcome.status == 0 && outcome.stdout.contains("64 MiB") && outcome.stdout.contains("enter root"), "{outcome:?}");
        assert_eq!(std::fs::read_dir(place.home().join("runs")).unwrap().count(), 0);
        let json: Value = serde_json::from_str(&place.ringfence(&["run", "--explain", "--json", "--", "true"]).stdout).unwrap();
        let memory = json["grant"]["decisions"].as_array().unwrap().iter().find(|d| d["field"] == "memory").unwrap();
        assert_eq!(memory["layers"], json!(["profile"]));
    }
}

#[test]
fn help_has_an_example_for_every_command_and_completions_are_made() {
    let place = Place::new(User::Ordinary);
    for command in [
        vec!["run"],
        vec!["matrix"],
        vec!["audit"],
        vec!["doctor"],
        vec!["schema"],
        vec!["completions"],
        vec!["profile", "check"],
        vec!["evidence", "verify"],
        vec!["evidence", "replay"],
        vec!["evidence", "checkpoint"],
        vec!["artifact", "get"],
        vec!["promote"],
        vec!["promotion", "undo"],
        vec!["approval", "approve"],
        vec!["approval", "grant"],
        vec!["serve"],
        vec!["key", "add"],
        vec!["key", "ls"],
        vec!["key", "revoke"],
        vec!["state", "ls"],
        vec!["state", "rm"],
        vec!["state", "sweep"],
        vec!["tenant", "add"],
        vec!["tenant", "ls"],
    ] {
        let help = place.ringfence(&[command.as_slice(), &["--help"]].concat());
        assert!(help.status == 0 && help.stdout.contains("Example:"), "{command:?}: {help:?}");
    }
    for target in ["bash", "zsh", "fish", "man"] {
        assert!(place.ringfence(&["completions", target]).stdout.contains("ringfence"));
    }
}

#[test]
fn the_schemas_in_the_documents_are_the_generated_ones() {
    let place = Place::new(User::Ordinary);
    for name in ["profile", "agent", "settings", "report", "audit", "promotion", "replay"] {
        let path = format!("{}/../../docs/reference/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let generated = place.ringfence(&["schema", name]).stdout;
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), generated, "run `make docs`, which writes {path}");
    }
}

#[test]
fn first_use_writes_a_ceiling_without_open_packages_and_wildcards() {
    let place = Place::new(User::Ordinary);
    place.ringfence(&["run", "--", "true"]);
    let settings = std::fs::read_to_string(place.home().join("ringfence.toml")).unwrap();
    assert!(settings.contains("[ceiling.packages]") && settings.contains("wildcards = \"none\""), "{settings}");
    let matrix = place.ringfence(&["matrix", "--format", "json", "--profile", "scratch"]).stdout;
    assert!(matrix.contains("python allowlist, node allowlist, rust none"), "{matrix}");
}

/// A caller that does not read must not stop the supervisor from holding limits.
#[test]
fn a_reader_that_sleeps_does_not_suspend_the_limits() {
    for place in Place::each() {
        let spin = "import os, sys\nwhile True: os.write(1, b'x' * 65536)";
        let line = format!(
            "{} run --limit wall=1s --limit output=4MiB -- python3 -c {spin:?} 2>err | sleep 4; echo ${{PIPESTATUS[0]}}",
            binary().display()
        );
        let begun = std::time::Instant::now();
        let child = place.command("/bin/bash").args(["-c", &line]).spawn().unwrap();
        crate::support::eventually("the end of the program", || {
            begun.elapsed().as_millis() > 1200 && crate::support::processes_of("python3", "65536").is_empty()
        });
        assert!(begun.elapsed().as_secs() < 4, "the program outlived its limit by {:?}", begun.elapsed());
        child.wait_with_output().unwrap();
    }
}

#[test]
fn a_full_device_behind_standard_output_is_a_failure() {
    for place in Place::each() {
        let line = format!("{} run --quiet -- echo hi > /dev/full", binary().display());
        let outcome = outcome(place.command("/bin/bash").args(["-c", &line]).output().unwrap());
        assert_eq!(outcome.status, 125, "{outcome:?}");
    }
}

#[test]
fn the_streams_can_be_opened_by_name() {
    for place in Place::each() {
        let outcome = place.bash(&["--quiet"], "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin");
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"), "{:?}", place.user);
    }
}
