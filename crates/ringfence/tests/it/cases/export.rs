//! The cases of the export: what is named, and what then leaves, is refused, or stays.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use super::Case;
use super::rig::Rig;
use crate::support::{binary, outcome};

/// What a case names, and what must come of it.
struct Expected {
    id: &'static str,
    exports: &'static [&'static str],
    status: i32,
    /// Paths that leave.
    leave: &'static [&'static str],
    /// Words of each refusal, path and reason.
    refused: &'static [&'static str],
}

const EXPECTED: &[Expected] = &[
    Expected { id: "SBX-150", exports: &["report.txt"], status: 123, leave: &[], refused: &["report.txt: is a symbolic link"] },
    Expected { id: "SBX-152", exports: &["d", "f"], status: 123, leave: &[], refused: &["d: is a symbolic link", "f: is a symbolic link"] },
    Expected { id: "SBX-153", exports: &["out/a"], status: 0, leave: &["out/a"], refused: &[] }, // what would swap it is dead by then
    Expected { id: "SBX-155", exports: &["*"], status: 123, leave: &[], refused: &["s.sock: is a socket"] }, // no device comes to be
    Expected { id: "SBX-156", exports: &["big.bin"], status: 1, leave: &["big.bin"], refused: &[] }, // the program itself meets the limit: an empty file
    Expected { id: "SBX-158", exports: &["**"], status: 123, leave: &[], refused: &["deep"] },
    Expected { id: "SBX-159", exports: &["empty.txt"], status: 0, leave: &["empty.txt"], refused: &[] },
    Expected { id: "SBX-161", exports: &["*"], status: 0, leave: &["-rf", "a\nb", "inv\u{202e}fdp.sh"], refused: &[] },
    Expected { id: "SBX-164", exports: &["t"], status: 0, leave: &["t"], refused: &[] },
    Expected { id: "SBX-167", exports: &["changes.patch"], status: 0, leave: &["changes.patch"], refused: &[] },
    Expected { id: "SBX-168", exports: &["blob.bin"], status: 0, leave: &["blob.bin"], refused: &[] },
];

/// What was wrong.
pub(super) fn faults(case: &Case, rig: &Rig) -> Option<String> {
    if case.id == "SBX-162" {
        return leaving_paths(case, rig);
    }
    let expected = EXPECTED.iter().find(|expected| expected.id == case.id).unwrap_or_else(|| panic!("{}: what is right?", case.id));
    let (report, status) = export(case, rig, expected.exports);
    let leave = |report: &Value| words(&report["artifacts"], |a| a["path"].as_str().unwrap().to_owned());
    let refused = words(&report["refusals"], |r| format!("{}: {}", r["path"].as_str().unwrap(), r["reason"].as_str().unwrap()));
    let is_right = status == expected.status
        && leave(&report) == expected.leave
        && refused.len() == expected.refused.len()
        && refused.iter().zip(expected.refused).all(|(refusal, words)| refusal.contains(words))
        && victim_is_untouched(rig)
        && nothing_is_left(rig, &report)
        && detail(case, rig, &report);
    (!is_right).then(|| format!("status {status}, {report}"))
}

/// The report of the case's command, and the status.
fn export(case: &Case, rig: &Rig, exports: &[&str]) -> (Value, i32) {
    let command = rig.filled_inside(&case.command);
    let mut run = rig.careless(case, rig.place.command(binary()));
    run.args(["run", "--json", "--out", "exported", "--limit", "output=256KiB", "--project"]).arg(&rig.workspace);
    run.args(exports.iter().flat_map(|export| ["--export", export])).args(["--", "bash", "-c", &command]);
    let outcome = outcome(run.output().unwrap());
    (serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}")), outcome.status)
}

fn nothing_is_left(rig: &Rig, report: &Value) -> bool {
    let left = |folder: &str| rig.shared.home(rig.place.user).join(folder).join(report["run"].as_str().unwrap()).exists();
    !left("live") && !left("work")
}

fn words(list: &Value, word: impl Fn(&Value) -> String) -> Vec<String> {
    let mut words: Vec<String> = list.as_array().unwrap().iter().map(word).collect();
    words.sort();
    words
}

fn victim_is_untouched(rig: &Rig) -> bool {
    let (victim, folder) = (rig.path("outside/victim.txt"), rig.place.path("outside"));
    let owner = |path: &dyn AsRef<std::path::Path>| fs::metadata(path).unwrap().uid();
    fs::read_to_string(&victim).unwrap() == "ORIGINAL" && owner(&victim) == owner(&folder)
}

/// What else must be right of the files that left.
fn detail(case: &Case, rig: &Rig, report: &Value) -> bool {
    let exported = |name: &str| rig.place.path("exported").join(name);
    let digest = || report["artifacts"][0]["sha256"].as_str().unwrap().trim_start_matches("sha256:");
    match case.id.as_str() {
        "SBX-153" => fs::read_to_string(exported("out/a")).unwrap() == "ok\n",
        "SBX-156" => report["artifacts"][0]["bytes"] == 0,
        "SBX-159" => digest().starts_with("e3b0c44298fc1c149afbf4c8996fb924"),
        "SBX-164" => fs::metadata(exported("t")).unwrap().mode() & 0o7000 == 0,
        "SBX-167" => {
            let patch = fs::read_to_string(exported("changes.patch")).unwrap();
            [".envrc", ".vscode/tasks.json", ".mcp.json", ".codex/config.toml"]
                .iter()
                .all(|name| patch.lines().next().unwrap().contains(name))
        }
        "SBX-168" => {
            fs::metadata(exported("blob.bin")).unwrap().len() == 3_000_000 && report["stdout"].as_str().unwrap().starts_with(digest())
        }
        _ => true,
    }
}

/// Names that would leave the workspace are refused before anything runs.
fn leaving_paths(case: &Case, rig: &Rig) -> Option<String> {
    for name in ["../outside/victim.txt", "/etc/passwd", "a/../../outside/victim.txt"] {
        let mut command = rig.careless(case, rig.place.command(binary()));
        command.args(["run", "--export", name, "--", "bash", "-c", &case.command]);
        let outcome = outcome(command.output().unwrap());
        if outcome.status != 125 || !outcome.stderr.contains(name) {
            return Some(format!("{name}: {outcome:?}"));
        }
    }
    None
}
