//! A place whose operator has an index, and runs in it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::shelf::Shelf;
use crate::support::{Outcome, Place, binary, outcome};

/// A word in the operator's settings that nobody inside may see.
pub(super) const PASSWORD: &str = "WORD_OF_THE_OPERATOR";

/// A place, and an index outside.
pub(super) struct Rig {
    pub(super) place: Place,
    pub(super) shelf: Shelf,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: i32,
    pub(super) report: Value,
    /// What the program printed.
    pub(super) text: String,
}

impl Ran {
    #[track_caller]
    pub(super) fn succeeds(&self) -> &Self {
        assert_eq!(self.status, 0, "{}\n{:#}", self.text, self.report);
        self
    }

    #[track_caller]
    pub(super) fn says(&self, words: &str) -> &Self {
        assert!(self.text.contains(words), "`{words}` is not in: {}", self.text);
        self
    }

    /// `NAME VERSION` of each package file that went inside.
    pub(super) fn packages(&self) -> BTreeSet<String> {
        let packages = self.report["packages"].as_array().unwrap();
        packages.iter().map(|package| format!("{} {}", text(&package["name"]), text(&package["version"]))).collect()
    }

    /// `NAME: RULE` of each that did not.
    pub(super) fn refused(&self) -> BTreeSet<String> {
        let refused = self.report["refused_packages"].as_array().unwrap();
        refused.iter().map(|refused| format!("{}: {}", text(&refused["name"]), text(&refused["rule"]))).collect()
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

impl Rig {
    /// One for each kind of user.
    pub(super) fn each() -> Vec<Self> {
        Place::each().into_iter().map(Self::of).collect()
    }

    fn of(place: Place) -> Self {
        let shelf = Shelf::new();
        let source =
            format!("[source.crates-io]\nreplace-with = \"own\"\n[source.own]\nregistry = \"sparse+{}\"\n", shelf.upstream.url("/rust/"));
        place.write("cargo/config.toml", source);
        Self { place, shelf }
    }

    /// A profile with this under `[packages]`, otherwise the default one with limits of the network.
    pub(super) fn profile(&self, packages: &str) {
        let shown = self.place.ringfence(&["profile", "show", "data-analysis"]).stdout;
        let named = shown.replace("name = \"data-analysis\"", "name = \"installs\"");
        let limited = named.replace("[limits]", "[limits]\nnetwork-requests = 1000\nnetwork-bytes = \"1GiB\"");
        self.place.write("installs.toml", format!("{limited}\n[packages]\n{packages}\n"));
    }

    /// `ringfence`, with the operator's settings in its environment.
    pub(super) fn command(&self) -> Command {
        let mut command = self.place.command(binary());
        let python = self.shelf.upstream.url("/simple/").replace("http://", &format!("http://me:{PASSWORD}@"));
        command.env("PIP_INDEX_URL", python).env("npm_config_registry", self.shelf.upstream.url("/npm/"));
        command.env("CARGO_HOME", self.place.path("cargo")).env_remove("CARGO_REGISTRY_DEFAULT").env_remove("UV_DEFAULT_INDEX");
        command
    }

    /// Runs a script under the profile.
    pub(super) fn run(&self, options: &[&str], script: &str) -> Ran {
        let arguments = [&["run", "--json", "--profile", "installs.toml"], options, &["--", "bash", "-c", script]].concat();
        let outcome = outcome(self.command().args(arguments).output().unwrap());
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"));
        let text = format!("{}{}", report["stdout"].as_str().unwrap_or_default(), report["stderr"].as_str().unwrap_or_default());
        Ran { status: outcome.status, report, text }
    }

    /// The same as a person sees it.
    pub(super) fn show(&self, options: &[&str], script: &str) -> Outcome {
        let arguments = [&["run", "--profile", "installs.toml"], options, &["--", "bash", "-c", script]].concat();
        outcome(self.command().args(arguments).output().unwrap())
    }

    /// Events of a run's record.
    pub(super) fn events(&self, ran: &Ran, kind: &str) -> Vec<Value> {
        let shown = self.place.ringfence(&["evidence", "show", "--json", text(&ran.report["run"])]).stdout;
        let events: Vec<Value> = match serde_json::from_str(&shown) {
            Ok(Value::Array(events)) => events,
            Ok(_) | Err(_) => shown.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        };
        events.into_iter().filter(|event| event.to_string().contains(&format!("\"{kind}\""))).collect()
    }
}

/// True if a client is in the image; otherwise the test is counted as skipped.
pub(super) fn has(client: &str) -> bool {
    let is_here = match client {
        "pip" => Command::new("/usr/bin/python3").args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()),
        program => Path::new("/usr/bin").join(program).exists(),
    };
    if !is_here {
        println!("skipped: {client} is not installed");
    }
    is_here
}
