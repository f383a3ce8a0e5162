//! cargo, inside. It is given as an input: the image has none.

use std::path::Path;
use std::process::Command;

use super::rig::{Ran, Rig};
use super::shelf::{LONG_AGO, Shelf};
use crate::support::outcome;
use crate::tools::reachable;

const MANIFEST: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nparent = \"1\"\n";
const MAIN: &str = "fn main() { parent::it(); println!(\"it runs\") }\n";

/// Runs cargo on a project that needs `parent`.
fn cargo(rig: &Rig, options: &[&str], script: &str) -> Ran {
    let found = outcome(Command::new("rustc").args(["--print", "sysroot"]).output().expect("`rustc` is not on the PATH")).stdout;
    let sysroot = Path::new(found.trim());
    reachable(&rig.place, "rust/bin", &[sysroot.join("bin/cargo"), sysroot.join("bin/rustc")]);
    let rust = reachable(&rig.place, "rust", &[sysroot.join("lib")]);
    rig.place.write("app/Cargo.toml", MANIFEST);
    rig.place.write("app/src/main.rs", MAIN);
    let script = format!("export PATH=/inputs/rust/bin:$PATH; set -e; {script}");
    rig.run(&[&["--input", &rust, "--project", "app", "--limit", "memory=1GiB"], options].concat(), &script)
}

#[test]
fn cargo_fetches_what_is_listed_and_builds_it_and_it_runs() {
    for rig in Rig::each() {
        rig.shelf.krate("some_child", "1.2.0", &[], Some(LONG_AGO));
        rig.shelf.krate("parent", "1.0.0", &[("some_child", "^1")], Some(LONG_AGO));
        rig.profile("rust = \"allowlist\"\nallow = [\"rust:parent\", \"rust:some_child\"]");
        let clean = "env -i PATH=$PATH HOME=/workspace";
        let ran = cargo(&rig, &[], &format!("{clean} cargo fetch 2>&1; cargo run -q --offline 2>&1"));
        ran.succeeds().says("it runs\n");
        assert_eq!(ran.packages(), ["parent 1.0.0", "some-child 1.2.0"].map(str::to_owned).into());
        rig.profile("rust = \"allowlist\"\nallow = [\"rust:parent\"]");
        let refused = cargo(&rig, &[], "cargo fetch 2>&1");
        refused.says("ringfence: rust package some-child is not on the list (rule: allowlist)");
        assert!(refused.status != 0 && refused.refused() == ["some-child: allowlist".to_owned()].into());
    }
}

/// As `pk_01_an_index_that_the_program_names_itself_is_not_reached`, for cargo.
#[test]
fn pk_01_an_index_that_cargo_is_told_of_inside_is_not_reached() {
    for rig in Rig::each() {
        let bait = Shelf::new();
        bait.krate("parent", "1.0.0", &[], Some(LONG_AGO));
        rig.profile("rust = \"allowlist\"\nallow = [\"rust:parent\"]");
        let source = format!("source.ringfence.registry=\"sparse+{}\"", bait.upstream.url("/rust/"));
        let ran = cargo(&rig, &[], &format!("cargo fetch --config '{source}' 2>&1"));
        assert!(ran.status != 0 && bait.upstream.asked().is_empty() && ran.packages().is_empty(), "{}", ran.text);
    }
}

/// The lock is cargo's own, and the index has newer by the time it is used.
#[test]
fn a_lock_of_cargos_own_pins_what_is_built() {
    for rig in Rig::each() {
        rig.shelf.krate("parent", "1.0.0", &[], Some(LONG_AGO));
        rig.profile("rust = \"allowlist\"\nallow = [\"rust:parent\"]");
        let lock = cargo(&rig, &[], "cargo generate-lockfile 2>/dev/null; cat Cargo.lock");
        rig.place.write("app/Cargo.lock", lock.succeeds().report["stdout"].as_str().unwrap());
        rig.shelf.krate("parent", "1.1.0", &[], Some(LONG_AGO));
        rig.profile("rust = \"locked\"");
        let ran = cargo(&rig, &[], "cargo run -q --locked 2>&1; cargo update 2>&1 || true; cargo run -q 2>&1");
        ran.succeeds().says("it runs\n");
        assert_eq!(ran.packages(), ["parent 1.0.0".to_owned()].into());
        assert_eq!(ran.report["locks"], serde_json::json!([{ "file": "Cargo.lock", "pins": 1 }]));
    }
}
