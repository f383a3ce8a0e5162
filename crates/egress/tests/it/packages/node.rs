//! npm.

use ringfence_egress::packages::parse_lock;
use serde_json::{Value, json};

use super::parcel;
use super::rig::{OPEN, Rig, has};
use super::shelf::{LONG_AGO, Shelf};

fn is_installed(rig: &Rig, name: &str) -> bool {
    rig.path("work").join("node_modules").join(name).join("package.json").exists()
}

/// A package that leaves a mark when it is installed.
fn marking(name: &str) -> (Value, Vec<u8>) {
    let manifest = json!({ "name": name, "version": "1.0.0", "scripts": { "preinstall": "touch \"$HOME/marker\"" } });
    let bytes = parcel::node_package(&manifest);
    (manifest, bytes)
}

#[test]
fn pk_03_install_scripts_do_not_run_unless_they_are_allowed() {
    let shelf = Shelf::new();
    let (manifest, bytes) = marking("marks");
    shelf.node(&manifest, &bytes, LONG_AGO);
    let rig = Rig::new(&shelf, OPEN);
    let text = "ringfence: marks 1.0.0 runs scripts at its install (rule: install scripts)";
    if has("npm") {
        rig.npm(&["install", "marks"]).fails_saying(text);
        assert!(!rig.path("home").join("marker").exists() && !is_installed(&rig, "marks"));
        let any = Rig::new(&shelf, &format!("{OPEN}install-scripts = \"any\"\n"));
        any.npm(&["install", "--foreground-scripts", "marks"]).succeeds();
        assert!(any.path("home").join("marker").exists() && is_installed(&any, "marks"));
    }
    let said = rig.get("/node/marks/-/marks-1.0.0.tgz");
    assert_eq!((said.status, said.text()), (403, json!({ "error": text }).to_string()));
    assert_eq!(rig.refused(), ["marks 1.0.0 : install scripts"]);
}

/// What the index says of a package and what is in it are two texts by one hand.
#[test]
fn pk_03_scripts_that_only_the_tarball_tells_of_are_found() {
    let shelf = Shelf::new();
    let (_, bytes) = marking("hides");
    shelf.node(&json!({ "name": "hides", "version": "1.0.0" }), &bytes, LONG_AGO);
    let gyp = json!({ "name": "native", "version": "1.0.0" });
    let entries = [("package/package.json", gyp.to_string()), ("package/binding.gyp", "{}".to_owned())];
    let entries: Vec<parcel::Entry<'_>> = entries.iter().map(|(name, text)| parcel::Entry::file(name, text.as_bytes())).collect();
    shelf.node(&gyp, &parcel::tarball(&entries), LONG_AGO);
    let any = Rig::new(&shelf, &format!("{OPEN}install-scripts = \"any\"\n"));
    let none = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.cache = any.folder.path().join("cache"));
    for path in ["/node/hides/-/hides-1.0.0.tgz", "/node/native/-/native-1.0.0.tgz"] {
        assert_eq!(any.get(path).status, 200, "{path}");
        let said = none.get(path);
        assert!(said.status == 403 && said.text().contains("holds scripts that run at its install (rule: install scripts)"), "{said:?}");
    }
}

#[test]
fn npm_installs_a_tree_with_a_scope_and_every_file_is_on_record() {
    if !has("npm") {
        return;
    }
    let shelf = Shelf::new();
    let pad = shelf.plain_node("@acme/left-pad", "1.3.0", json!({}));
    let top = shelf.plain_node("top", "1.0.0", json!({ "@acme/left-pad": "^1.0.0" }));
    let rig = Rig::new(&shelf, OPEN);
    rig.npm(&["install", "top"]).succeeds();
    assert!(is_installed(&rig, "top") && is_installed(&rig, "@acme/left-pad"));
    let served = [("left-pad-1.3.0.tgz", &pad), ("top-1.0.0.tgz", &top)].map(|(file, bytes)| (file.to_owned(), parcel::sha256(bytes)));
    assert_eq!(rig.served(), served);
    // The file alone must do, for programs that are started with an empty environment.
    let file = [("npm_config_globalconfig".to_owned(), rig.lay_files().join("etc/npmrc").display().to_string())];
    rig.run_with(std::path::Path::new("/usr/bin/npm"), "other", &["install", "top"], &file).succeeds();
    assert!(rig.path("other").join("node_modules/top/package.json").exists());
}

#[test]
fn pk_06_a_name_and_a_version_that_are_not_listed_are_refused_with_the_rule() {
    let shelf = Shelf::new();
    shelf.plain_node("left-pad", "1.3.0", json!({}));
    shelf.plain_node("left-pad", "2.0.0", json!({}));
    shelf.plain_node("left-pda", "1.3.0", json!({}));
    let rules = "node = \"allowlist\"\nminimum-age = \"0s\"\nallow = [\"node:left-pad^1.0\"]\n";
    let rig = Rig::new(&shelf, rules);
    if has("npm") {
        rig.npm(&["install", "left-pda"]).fails_saying("ringfence: node package left-pda is not on the list (rule: allowlist)");
        rig.npm(&["install", "left-pad@2.0.0"]).fails_saying("ringfence: left-pad 2.0.0 fits no rule of the list (rule: allowlist)");
        rig.npm(&["install", "left-pad"]).succeeds();
    }
    let document: Value = serde_json::from_slice(&rig.get("/node/left-pad").body).unwrap();
    assert_eq!(document["dist-tags"], json!({ "latest": "1.3.0" }));
    assert_eq!((document["versions"].as_object().unwrap().len(), document["time"].as_object().unwrap().len()), (1, 1));
    let tarball = format!("http://{}/node/left-pad/-/left-pad-1.3.0.tgz", rig.address);
    assert_eq!(document["versions"]["1.3.0"]["dist"]["tarball"], json!(tarball));
    assert!(document["versions"]["1.3.0"]["dist"]["integrity"].as_str().unwrap().starts_with("sha512-"));
    assert!(!shelf.upstream.was_asked_about("left-pda"));
}

/// A lock file names the place that its maker used, which cannot be reached from inside.
#[test]
fn pk_07_a_lock_file_installs_from_here_and_nothing_else_does() {
    let shelf = Shelf::new();
    let pad = shelf.plain_node("left-pad", "1.3.0", json!({}));
    shelf.plain_node("other", "1.0.0", json!({}));
    let lock = json!({
        "name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
        "packages": {
            "": { "name": "app", "version": "1.0.0", "dependencies": { "left-pad": "^1.0.0" } },
            "node_modules/left-pad": {
                "version": "1.3.0",
                "resolved": "https://elsewhere.example/left-pad/-/left-pad-1.3.0.tgz",
                "integrity": parcel::sha512_integrity(&pad),
            },
        },
    })
    .to_string();
    let rig = Rig::with(&shelf, "node = \"locked\"\n", parse_lock("package-lock.json", &lock).unwrap(), |_| {});
    rig.write("work/package-lock.json", &lock);
    rig.write("work/package.json", &json!({ "name": "app", "version": "1.0.0", "dependencies": { "left-pad": "^1.0.0" } }).to_string());
    if has("npm") {
        rig.npm(&["ci"]).succeeds();
        assert!(is_installed(&rig, "left-pad"));
        rig.npm(&["install", "other"]).fails_saying("ringfence: node package other is in no lock file (rule: lock file)");
    }
    assert_eq!(rig.get("/node/left-pad/-/left-pad-1.3.0.tgz").body, pad);
    assert_eq!(rig.get("/node/other").status, 403);
}

#[test]
fn pk_08_npm_is_given_the_version_before_the_one_that_is_too_young() {
    let shelf = Shelf::new();
    shelf.plain_node("young", "1.0.0", json!({}));
    let manifest = json!({ "name": "young", "version": "1.1.0" });
    let now = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339).unwrap();
    shelf.node(&manifest, &parcel::node_package(&manifest), &now);
    let rig = Rig::new(&shelf, "node = \"open\"\n");
    if has("npm") {
        rig.npm(&["install", "young"]).succeeds();
        rig.npm(&["install", "young@1.1.0"]).fails_saying("ringfence: young 1.1.0 is younger than 72 h (rule: minimum age)");
    }
    assert_eq!(rig.get("/node/young/-/young-1.0.0.tgz").status, 200);
    assert_eq!(rig.get("/node/young/-/young-1.1.0.tgz").status, 403);
}

#[test]
fn the_short_document_has_what_an_install_needs() {
    let shelf = Shelf::new();
    shelf.plain_node("short", "1.0.0", json!({ "dep": "1" }));
    let rig = Rig::new(&shelf, OPEN);
    let request = "GET /node/short HTTP/1.1\r\nhost: x\r\naccept: application/vnd.npm.install-v1+json\r\nconnection: close\r\n\r\n";
    let document: Value = serde_json::from_slice(&rig.request(request).body).unwrap();
    let mut keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["dist-tags", "name", "time", "versions"]);
    assert_eq!(document["versions"]["1.0.0"]["dependencies"], json!({ "dep": "1" }));
}
