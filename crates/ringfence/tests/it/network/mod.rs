//! A run with destinations, amid a small internet in a second network namespace (`tests/data/internet.py`): what is allowed is reached by the tools
//! that people use, everything else fails at once, and each decision is told.

mod hostile;
mod probed;
mod secrets;
mod tools;

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Outcome, Place, User, binary, is_root, outcome};

/// A place with a profile whose network is a list.
pub(crate) struct Net {
    pub(crate) place: Place,
}

const LIMITS: &str = "[limits]\nnetwork-bytes = \"64MiB\"\nnetwork-requests = 1000\n";

impl Net {
    /// Places for every user; none where a second network cannot be had.
    pub(crate) fn each(rules: &[&str], more: &str) -> Vec<Self> {
        if !is_root() {
            println!("skipped: only root can make a second network");
            return Vec::new();
        }
        Place::each().into_iter().map(|place| Self::new(place, rules, more)).collect()
    }

    fn new(place: Place, rules: &[&str], more: &str) -> Self {
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout.replace("name = \"data-analysis\"", "name = \"net\"");
        let rules: Vec<String> = rules.iter().map(|rule| format!("\"{rule}\"")).collect();
        let network = format!("[network]\nallow = [{}]\n{more}\n\n{LIMITS}", rules.join(", "));
        place.write("net.toml", shown.replace("[limits]\n", &network));
        place.write("settings.toml", "[ceiling.network]\nwildcards = \"any\"\n");
        place.write("internet/www/index.html", "a file\n");
        place.write("internet/internet.py", include_str!("../../data/internet.py"));
        Self { place }
    }

    /// Any command amid the internet.
    pub(crate) fn amid(&self, words: &[&str]) -> Outcome {
        let uid = if self.place.user == User::Root { "0".to_owned() } else { crate::support::ORDINARY.to_string() };
        let folder = self.place.path("internet");
        let mut command = std::process::Command::new("/usr/bin/python3");
        command.arg(folder.join("internet.py")).arg(&folder).arg(uid).args(words);
        command.env("RINGFENCE_HOME", self.place.home()).env("HOME", self.place.path("nobody-home"));
        outcome(command.current_dir(self.place.path("")).stdin(Stdio::null()).output().unwrap())
    }

    /// `ringfence run --json` with the profile.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Value {
        let program = binary().display().to_string();
        let own = [program.as_str(), "--config", "settings.toml", "run", "--json", "--profile", "net.toml", "--input", "internet/ca.pem"];
        let outcome = self.amid(&[&own[..], options, &["--", "bash", "-c", script]].concat());
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }

    /// Requests that arrived at the internet: address, and first line.
    pub(crate) fn heard(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.place.path("internet/heard.jsonl")).unwrap();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["at"][0].as_str().unwrap().to_owned(), line["request"].as_str().unwrap().to_owned())
        };
        text.lines().map(line).collect()
    }
}

pub(crate) const FRIEND: &str = "93.184.216.34";

/// What the programs wrote, a line each.
pub(crate) fn lines(report: &Value) -> Vec<&str> {
    assert!(report["stdout"].is_string(), "{report}");
    report["stdout"].as_str().unwrap().lines().collect()
}

/// Decisions as `allowed HOST:PORT` or `refused HOST:PORT`.
pub(crate) fn decisions(report: &Value) -> Vec<String> {
    let decision = |decision: &Value| {
        let word = if decision["allowed"].as_bool().unwrap() { "allowed" } else { "refused" };
        let port = decision["port"].as_u64().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{word} {} {}{port}", decision["way"].as_str().unwrap(), decision["host"].as_str().unwrap())
    };
    report["network"].as_array().unwrap().iter().map(decision).collect()
}
