//! What holds for each client: that its settings lead to the index, also with an empty environment, and nowhere else.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::parcel;
use super::rig::{Rig, has};
use super::shelf::{LONG_AGO, Shelf};
use crate::tools::reachable;

const ALLOW: &str = "python = \"allowlist\"\nnode = \"allowlist\"\nminimum-age = \"0s\"\n\
    allow = [\"python:good\", \"python:child\", \"node:good\", \"node:child\", \"node:marked\", \"python:prize\", \"node:prize\"]";

fn fill(shelf: &Shelf) {
    shelf.wheel("good", "1.0", &["child"]);
    shelf.wheel("child", "1.0", &[]);
    shelf.plain_node("good", "1.0.0", json!({ "child": "^1.0.0" }));
    shelf.plain_node("child", "1.2.0", json!({}));
}

#[test]
fn npm_installs_what_is_listed_and_it_runs() {
    for rig in Rig::each().into_iter().filter(|_| has("npm")) {
        fill(&rig.shelf);
        rig.shelf.plain_node("other", "1.0.0", json!({}));
        rig.profile(ALLOW);
        let ran = rig.run(&[], "npm install good 2>&1 && node -e 'console.log(`it is ${require(\"good\")}`)'; npm install other 2>&1");
        ran.says("it is 1\n").says("ringfence: node package other is not on the list (rule: allowlist)");
        assert_ne!(ran.status, 0);
        assert_eq!(ran.packages(), ["child 1.2.0", "good 1.0.0"].map(str::to_owned).into());
        assert_eq!(ran.refused(), ["other: allowlist".to_owned()].into());
    }
}

#[test]
fn pk_03_a_script_of_a_package_does_not_run_inside() {
    for rig in Rig::each().into_iter().filter(|_| has("npm")) {
        let manifest = json!({ "name": "marked", "version": "1.0.0", "scripts": { "preinstall": "touch /workspace/marker" } });
        rig.shelf.node(&manifest, &parcel::node_package(&manifest), LONG_AGO);
        rig.profile(ALLOW);
        // Who asks for scripts on the command line gets none either: the index does not have the package.
        let ran = rig.run(&[], "npm install --ignore-scripts=false marked 2>&1; test -e /workspace/marker && echo it ran");
        ran.says("runs scripts at its install (rule: install scripts)");
        assert!(!ran.text.contains("it ran"), "{}", ran.text);
        rig.profile(&format!("{ALLOW}\ninstall-scripts = \"any\""));
        rig.run(&[], "npm install marked 2>&1; test -e /workspace/marker && echo it ran").succeeds().says("it ran\n");
    }
}

/// Programs that are started with an empty environment find the files.
#[test]
fn the_settings_files_alone_lead_to_the_index() {
    for rig in Rig::each().into_iter().filter(|_| has("pip") && has("npm")) {
        fill(&rig.shelf);
        rig.profile(ALLOW);
        let clean = "env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/workspace";
        let script = format!(
            "set -e\n{clean} python3 -m pip -q install good 2>&1\n{clean} python3 -c 'import good; print(good.version)'\n\
            {clean} npm install good 2>&1\n{clean} node -e 'console.log(`it is ${{require(\"good\")}}`)'"
        );
        let ran = rig.run(&[], &script);
        ran.succeeds().says("1.0\n").says("it is 1\n");
        assert_eq!(ran.packages().len(), 4, "{:?}", ran.packages());
    }
}

/// Another index, named by the program itself in each way that its clients have: there is no way to it.
#[test]
fn pk_01_an_index_that_the_program_names_itself_is_not_reached() {
    for rig in Rig::each().into_iter().filter(|_| has("pip") && has("npm")) {
        let bait = Shelf::new();
        bait.wheel("prize", "1.0", &[]);
        bait.plain_node("prize", "1.0.0", json!({}));
        rig.profile(ALLOW);
        let (python, node) = (bait.upstream.url("/simple/"), bait.upstream.url("/npm/"));
        let pip = "python3 -m pip -q install --retries 0 --timeout 3";
        let file = bait.upstream.url("/files/prize-1.0-py3-none-any.whl");
        let script = format!(
            "{pip} --index-url {python} prize; {pip} --extra-index-url {python} prize; PIP_INDEX_URL={python} {pip} prize; {pip} {file}\n\
            npm install --fetch-retries 0 --registry {node} prize; npm install --fetch-retries 0 {}\n\
            python3 -c 'import prize'; ls node_modules/prize",
            bait.upstream.url("/tarballs/prize-1.0.0.tgz")
        );
        let ran = rig.run(&[], &script);
        assert_ne!(ran.status, 0, "{}", ran.text);
        assert_eq!((bait.upstream.asked().len(), ran.packages().len()), (0, 0), "{}", ran.text);
    }
}

/// uv is not in the image; it is here where a person, or `make test`, put it.
#[test]
fn uv_installs_what_is_listed_and_says_why_not() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/uv");
    let Some(uv) = [here, "/usr/local/bin/uv".into(), "/usr/bin/uv".into()].into_iter().find(|path| path.exists()) else {
        return println!("skipped: uv is not installed");
    };
    for rig in Rig::each() {
        fill(&rig.shelf);
        rig.profile(ALLOW);
        let given = reachable(&rig.place, "tools", &[PathBuf::from(&uv)]);
        let install = "/inputs/tools/uv pip install --no-cache --python /usr/bin/python3 --target site";
        let clean = "env -i PATH=/usr/bin:/bin HOME=/workspace";
        let script = format!("{install} good 2>&1 && {clean} {install} --reinstall good 2>&1; {install} other 2>&1");
        let ran = rig.run(&["--input", &given], &script);
        ran.says("ringfence: python package other is not on the list (rule: allowlist)");
        assert_eq!(ran.packages(), ["child 1.0", "good 1.0"].map(str::to_owned).into(), "{}", ran.text);
    }
}
