//! pip, inside.

use std::collections::BTreeSet;

use serde_json::json;

use super::parcel;
use super::rig::{PASSWORD, Rig, has, text};
use super::shelf::Shelf;
use super::upstream::Reply;

const PIP: &str = "pip() { python3 -m pip -q install --no-cache-dir \"$@\" 2>&1; }\n";

fn listed(names: &[&str]) -> String {
    let rules: Vec<String> = names.iter().map(|name| format!("\"python:{name}\"")).collect();
    format!("python = \"allowlist\"\nminimum-age = \"0s\"\nallow = [{}]", rules.join(", "))
}

#[test]
fn pk_15_each_of_13_packages_inside_is_on_record_as_it_is_on_disk() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        let children: Vec<String> = (0..10).map(|n| format!("child{n}")).collect();
        let child = |range: std::ops::Range<usize>| children[range].iter().map(String::as_str).collect::<Vec<_>>();
        for (parent, needs) in [("alpha", child(0..4)), ("beta", child(4..7)), ("gamma", child(7..10))] {
            rig.shelf.wheel(parent, "1.0", &needs);
        }
        children.iter().for_each(|name| drop(rig.shelf.wheel(name, "2.0", &[])));
        rig.profile(&listed(&[&["alpha", "beta", "gamma"], child(0..10).as_slice()].concat()));
        let script = "pip alpha beta gamma && python3 -c 'import alpha, child9; print(alpha.version, child9.version)'\n\
            cd ~/.local/lib/python3*/site-packages && for i in *.dist-info; do echo \"installed ${i%.dist-info}\"; done";
        let ran = rig.run(&[], &format!("{PIP}{script}"));
        ran.succeeds().says("1.0 2.0\n");
        let on_disk: BTreeSet<String> =
            ran.text.lines().filter_map(|line| Some(line.strip_prefix("installed ")?.replace('-', " "))).collect();
        assert_eq!((on_disk.len(), &ran.packages()), (13, &on_disk), "{:?}", rig.place.user);
        let served = rig.events(&ran, "package_served");
        let told = served.iter().map(|event| event.to_string()).collect::<String>();
        assert_eq!(served.len(), 13, "{told}");
        for package in ran.report["packages"].as_array().unwrap() {
            assert!(told.contains(text(&package["sha256"])) && told.contains(text(&package["source"])), "{package} {told}");
        }
        assert!(rig.shelf.upstream.asked().iter().all(|asked| asked.authorization.is_some()));
        rig.place.assert_clean();
    }
}

fn fill(shelf: &Shelf) {
    let hour_ago = time::OffsetDateTime::now_utc() - time::Duration::hours(1);
    let hour_ago = hour_ago.format(&time::format_description::well_known::Rfc3339).unwrap();
    shelf.wheel("good", "1.0", &[]);
    shelf.wheel("other", "1.0", &[]);
    shelf.wheel_of("young", "1.0", &[], &hour_ago);
    shelf.wheel("wrong", "1.0", &[]);
    shelf.upstream.say("/files/wrong-1.0-py3-none-any.whl", Reply::Page("application/octet-stream", parcel::wheel("wrong", "1.0", &["x"])));
    let source = parcel::tarball(&[parcel::Entry::file("built-1.0/PKG-INFO", b"Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")]);
    shelf.python_file("built", "built-1.0.tar.gz", &source, json!({}));
}

#[test]
fn what_a_rule_is_against_is_refused_and_the_clients_output_names_the_rule() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        fill(&rig.shelf);
        rig.profile(&listed(&["good", "young", "wrong", "built"]).replace("0s", "72h"));
        let ran = rig.run(&[], &format!("{PIP}for i in other young wrong built; do pip $i && echo \"$i was installed\"; done; pip good"));
        ran.succeeds();
        for words in [
            "ringfence: python package other is not on the list (rule: allowlist)",
            "ringfence: young 1.0 is younger than 72 h (rule: minimum age)",
            "ringfence: wheel wrong-1.0-py3-none-any.whl does not match its hash (rule: hashes of the index)",
            "ringfence: built 1.0 would be built from source (rule: source builds)",
        ] {
            ran.says(words);
        }
        assert!(!ran.text.contains("was installed"), "{}", ran.text);
        let wanted = ["built: source builds", "other: allowlist", "wrong: hashes of the index", "young: minimum age"];
        assert_eq!(ran.refused(), wanted.map(str::to_owned).into());
        assert_eq!(ran.packages(), ["good 1.0".to_owned()].into());
        let shown = rig.show(&[], &format!("{PIP}pip other; true"));
        assert!(shown.stderr.contains("ringfence: package refused: python other: rule allowlist"), "{shown:?}");
        assert!(!rig.shelf.upstream.was_asked_about("other"));
    }
}

/// What the operator's own settings hold stays outside.
#[test]
fn the_operators_credential_is_not_inside_and_not_on_record() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        rig.shelf.wheel("good", "1.0", &[]);
        rig.profile(&listed(&["good"]));
        let ran = rig.run(&[], &format!("{PIP}pip good; env; cat /etc/pip.conf /etc/npmrc /.cargo/config.toml /etc/uv/uv.toml"));
        assert!(!ran.succeeds().text.contains(PASSWORD) && !ran.report.to_string().contains(PASSWORD), "{}", ran.text);
        let found = rig.place.command("/bin/grep").args(["-rl", PASSWORD]).arg(rig.place.home()).output().unwrap();
        assert!(found.stdout.is_empty(), "{found:?}");
    }
}

/// A run of which the program alters what it finds, and one after it.
#[test]
fn pk_09_two_runs_share_what_is_kept_and_neither_can_alter_it() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        rig.shelf.wheel("clean", "1.0", &[]);
        rig.profile(&listed(&["clean"]));
        let poison = "find / -not -path '/proc/*' \\( -name 'clean*' -o -name 'zip-sha256-*' \\) -type f 2>/dev/null | while read -r i; do echo poison > \"$i\"; done\n\
            find /workspace -path '*clean/__init__.py' -exec sh -c 'echo version = 666 > $1' _ {} \\; 2>/dev/null; python3 -c 'import clean; print(clean.version)'";
        rig.run(&[], &format!("{PIP}pip clean\n{poison}")).succeeds().says("666\n");
        rig.shelf.upstream.set_down(true);
        let second = rig.run(&[], &format!("{PIP}pip clean && python3 -c 'import clean; print(clean.version)'"));
        second.succeeds().says("1.0\n");
        let from_cache: Vec<_> = second.report["packages"].as_array().unwrap().iter().map(|package| &package["is_from_cache"]).collect();
        assert_eq!(from_cache, [&json!(true)], "{:?}", rig.place.user);
    }
}

#[test]
fn an_index_that_is_down_or_that_nobody_named_is_told_as_that() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        rig.profile(&listed(&["good"]));
        rig.shelf.upstream.set_down(true);
        let ran = rig.run(&[], &format!("{PIP}pip good"));
        assert_ne!(ran.status, 0);
        ran.says("ringfence: the index of python packages cannot be used");
        assert_eq!(ran.report["warnings"], json!([]));
        let unnamed = |options: &[&str]| {
            let mut command = rig.command();
            command.env_remove("PIP_INDEX_URL").env("PIP_CONFIG_FILE", "/dev/null");
            let arguments = [&["run", "--profile", "installs.toml"], options, &["--", "true"]].concat();
            crate::support::outcome(command.args(arguments).output().unwrap())
        };
        let warning =
            "no python package can be installed: pip names no index of python packages; hint: run `pip config set global.index-url URL`";
        let (shown, json) = (unnamed(&[]), unnamed(&["--json"]));
        assert!(shown.status == 0 && shown.stderr.starts_with(&format!("ringfence: {warning}\n")), "{shown:?}");
        let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((&report["warnings"], json.stderr.as_str()), (&json!([warning]), ""));
    }
}

/// Requests to the index count as any other, and so do the bytes that it answers with.
#[test]
fn limits_of_the_network_hold_for_packages_too() {
    for rig in Rig::each().into_iter().filter(|_| has("pip")) {
        rig.shelf.wheel("good", "1.0", &[]);
        rig.profile(&listed(&["good"]));
        for (limit, key) in [("network-requests=1", "network-requests"), ("network-bytes=700B", "network-bytes")] {
            let ran = rig.run(&["--limit", limit], &format!("{PIP}pip good"));
            assert_ne!(ran.status, 0, "{}", ran.text);
            assert_eq!(ran.report["limits_reached"], json!([key]), "{}", ran.text);
            assert_eq!(ran.report["packages"], json!([]), "{}", ran.text);
        }
    }
}
