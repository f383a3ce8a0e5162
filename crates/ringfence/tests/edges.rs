//! The edges between crates are those of the table in ARCHITECTURE.md, and unsafe code is in three folders only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

fn root() -> String {
    format!("{}/../..", env!("CARGO_MANIFEST_DIR"))
}

/// The table "may use": crate, and the crates in its second column.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(format!("{}/ARCHITECTURE.md", root())).unwrap();
    let table = text.split("| crate | may use |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let mut names = line.split('`').skip(1).step_by(2).map(str::to_owned);
        (names.next().unwrap(), names.collect())
    })
    .collect()
}

/// The packages of a workspace. (Init is built apart, without a standard library.)
fn packages(manifest: &str) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path", manifest])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn the_edges_between_crates_are_the_allowed_ones() {
    let packages: Vec<Value> = ["Cargo.toml", "crates/init/Cargo.toml"].into_iter().flat_map(packages).collect();
    let ours: BTreeSet<&str> = packages.iter().map(|p| p["name"].as_str().unwrap()).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in &packages {
        let uses = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().unwrap());
        let uses = uses.filter(|name| ours.contains(name)).map(str::to_owned).collect();
        found.insert(package["name"].as_str().unwrap().to_owned(), uses);
    }
    assert_eq!(found, allowed());
}

#[test]
fn isolation_stays_free_of_async_runtimes_databases_and_networks() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "-p", "ringfence-isolation", "-e", "normal", "--prefix", "none", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("rustix"), "{tree}");
    for banned in ["tokio ", "sqlx", "hyper", "rmcp", "reqwest", "axum"] {
        assert!(!tree.lines().any(|line| line.starts_with(banned)), "isolation uses {banned}");
    }
}

#[test]
fn unsafe_code_is_in_three_folders() {
    let mut waiting = vec![std::path::PathBuf::from(format!("{}/crates", root()))];
    let mut found = BTreeSet::new();
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                waiting.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && has_unsafe_code(&std::fs::read_to_string(&path).unwrap()) {
                found.insert(path.parent().unwrap().strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    assert_eq!(found, ["crates/init/src/probe/sys", "crates/init/src/sys", "crates/isolation/src/sys"].map(str::to_owned).into());
}

fn has_unsafe_code(text: &str) -> bool {
    ["{", "fn", "impl", "extern"].iter().any(|what| text.contains(&format!("{} {what}", concat!("un", "safe"))))
}
