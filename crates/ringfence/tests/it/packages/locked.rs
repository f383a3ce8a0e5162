//! Packages as a lock file of the project pins them.

use serde_json::{Value, json};

use super::parcel;
use super::rig::{Rig, has, text};

const PIP: &str = "python3 -m pip -q install --no-cache-dir";

#[test]
fn pk_07_a_requirements_file_with_hashes_pins_what_is_installed() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        let parent = rig.shelf.wheel("parent", "1.0", &["child"]);
        let child = rig.shelf.wheel("child", "1.0", &[]);
        rig.shelf.wheel("child", "1.1", &[]);
        rig.shelf.wheel("other", "1.0", &[]);
        let pin = |name: &str, bytes: &[u8]| format!("{name}==1.0 --hash=sha256:{}\n", parcel::sha256(bytes));
        rig.place.write("app/requirements.txt", pin("parent", &parent) + &pin("child", &child));
        rig.profile("python = \"locked\"");
        let script = format!(
            "{PIP} -r requirements.txt && python3 -c 'import parent, child; print(child.version)'; {PIP} other 2>&1; {PIP} child==1.1 2>&1"
        );
        let ran = rig.run(&["--project", "app"], &script);
        ran.says("1.0\n").says("ringfence: python package other is in no lock file (rule: lock file)");
        assert_ne!(ran.status, 0, "{}", ran.text);
        assert_eq!(ran.packages(), ["child 1.0", "parent 1.0"].map(str::to_owned).into());
        assert_eq!(ran.report["locks"], json!([{ "file": "requirements.txt", "pins": 2 }]));
        assert_eq!(rig.events(&ran, "lock_read").len(), 1);
        // The program's own copy pins nothing.
        let bytes = rig.shelf.wheel("smuggled", "1.0", &[]);
        let line = pin("smuggled", &bytes);
        let ran = rig.run(&["--project", "app"], &format!("echo '{}' >> requirements.txt; {PIP} -r requirements.txt 2>&1", line.trim()));
        // Of a version that was named pip shows only what else there is: a version that is none, by the name of the rule.
        ran.says("0+ringfence.lock.file");
        assert_eq!(ran.refused(), ["smuggled: lock file".to_owned()].into());
    }
}

#[test]
fn a_lock_that_leaves_a_hash_out_pins_nothing_and_is_told_of() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        let bytes = rig.shelf.wheel("pinned", "1.0", &[]);
        rig.shelf.wheel("loose", "1.0", &[]);
        rig.place.write("app/requirements.txt", format!("pinned==1.0 --hash=sha256:{}\nloose==1.0\n", parcel::sha256(&bytes)));
        rig.profile("python = \"locked\"");
        let script = format!("{PIP} pinned 2>&1");
        let ran = rig.run(&["--project", "app"], &script);
        ran.says("ringfence: python package pinned is in no lock file (rule: lock file)");
        let lock = &ran.report["locks"][0];
        assert_eq!((ran.packages().len(), &lock["pins"]), (0, &json!(0)));
        assert!(text(&lock["problem"]).starts_with("requirements.txt:2: "), "{lock}");
        let shown = rig.show(&["--project", "app"], &script);
        assert!(shown.stderr.contains("ringfence: no lock: requirements.txt:2: "), "{shown:?}");
    }
}

/// The lock is npm's own, made against another address.
#[test]
fn a_lock_of_npms_own_pins_what_is_installed() {
    for rig in Rig::each().into_iter().filter(|_| has("npm")) {
        rig.shelf.plain_node("good", "1.0.0", json!({ "child": "^1.0.0" }));
        rig.shelf.plain_node("child", "1.2.0", json!({}));
        rig.place.write("app/package.json", json!({ "name": "app", "version": "0.0.0", "dependencies": { "good": "^1.0.0" } }).to_string());
        rig.profile("node = \"allowlist\"\nminimum-age = \"0s\"\nallow = [\"node:good\", \"node:child\"]");
        let made = rig.run(&["--project", "app"], "npm install --package-lock-only >/dev/null 2>&1; cat package-lock.json");
        let lock: Value = serde_json::from_str(text(&made.succeeds().report["stdout"])).unwrap();
        rig.place.write("app/package-lock.json", lock.to_string());
        rig.shelf.plain_node("child", "1.3.0", json!({}));
        rig.profile("node = \"locked\"");
        let ran =
            rig.run(&["--project", "app"], "npm ci 2>&1 && node -e 'console.log(`it is ${require(\"good\")}`)'; npm install other 2>&1");
        ran.says("it is 1\n").says("ringfence: node package other is in no lock file (rule: lock file)");
        assert_eq!(ran.packages(), ["child 1.2.0", "good 1.0.0"].map(str::to_owned).into());
        assert_eq!(ran.report["locks"], json!([{ "file": "package-lock.json", "pins": 2 }]));
    }
}

/// What it pins is what pip may have too: the index asks for the bytes, not for the client.
#[test]
fn a_lock_of_uvs_form_pins_what_is_installed() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        let bytes = rig.shelf.wheel("good", "1.0", &[]);
        rig.shelf.wheel("good", "1.1", &[]);
        let lock = format!(
            "version = 1\n\n[[package]]\nname = \"good\"\nversion = \"1.0\"\nsource = {{ registry = \"https://index.example/simple\" }}\n\
             wheels = [{{ url = \"u\", hash = \"sha256:{}\" }}]\n",
            parcel::sha256(&bytes)
        );
        rig.place.write("app/uv.lock", lock);
        rig.profile("python = \"locked\"");
        let ran = rig.run(&["--project", "app"], &format!("{PIP} good 2>&1 && python3 -c 'import good; print(good.version)'"));
        ran.succeeds().says("1.0\n");
        assert_eq!(ran.report["locks"], json!([{ "file": "uv.lock", "pins": 1 }]));
    }
}
