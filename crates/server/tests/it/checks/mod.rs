//! The checks of the conformance list about servers (`crates/ringfence/tests/data/checks.jsonl`), each by its id, where no older test holds all of it. Those
//! that need the real binary, for its memory, its files and where it listens, are in `crates/ringfence/tests/it/checks/serving.rs`.

mod canary;
mod doors;
mod errors;
mod paths;
mod words;

use serde_json::Value;

use crate::e2b::wire::Sandbox;
use crate::rig::{Rig, document};

/// Every path of E2B's control plane, as its source names them, with a name in place of each parameter.
fn e2b_paths() -> Vec<String> {
    let source = include_str!("../../../src/e2b/control/mod.rs");
    let texts = source.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/'));
    let named = |text: &str| {
        let part = |part: &str| if part.starts_with('{') { "01kbdz9xk3v8p5r0q2n7m4t6w1".to_owned() } else { part.to_owned() };
        text.split('/').map(part).collect::<Vec<_>>().join("/")
    };
    let paths: Vec<String> = texts.map(named).collect();
    assert!(paths.len() > 25 && paths.contains(&"/sandboxes".to_owned()), "{paths:?}");
    paths
}

/// The methods, paths and descriptions of our own API.
fn operations() -> impl Iterator<Item = (String, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| (method.to_ascii_uppercase(), path.as_str(), operation))
    })
}

/// Bytes as a query or a path can hold them.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Something of each kind to ask about: a run that is over, and a session that stands.
struct Things<'r> {
    run: String,
    sandbox: Sandbox<'r>,
}

impl<'r> Things<'r> {
    fn of(rig: &'r Rig) -> Self {
        let report = rig.run(&serde_json::json!({"command": ["true"]}));
        Self { run: report["run"].as_str().unwrap().to_owned(), sandbox: Sandbox::new(rig) }
    }

    /// A path of the description, with what there is in place of its parameters.
    fn named(&self, path: &str) -> String {
        path.replace("{run}", &self.run).replace("{session}", &self.sandbox.id)
    }
}
