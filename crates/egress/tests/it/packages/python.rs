//! pip and uv.

use std::path::{Path, PathBuf};

use ringfence_egress::packages::{PackageDecision, parse_lock};
use serde_json::json;

use super::parcel;
use super::rig::{OPEN, Rig, has, move_clock, moved_clock};
use super::shelf::Shelf;
use super::upstream::Reply;

const LOCKED: &str = "python = \"locked\"\n";

fn listed(rules: &str) -> String {
    format!("python = \"allowlist\"\nminimum-age = \"0s\"\nallow = [{rules}]\n")
}

/// What is on disk under a folder of installed packages.
fn installed(rig: &Rig) -> Vec<String> {
    let entries = rig.path("work/site").read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter_map(|name| name.strip_suffix(".dist-info").map(str::to_owned)).collect();
    found.sort();
    found
}

#[test]
fn pk_15_each_of_13_installed_packages_is_on_record_as_it_is_on_disk() {
    if !has("pip") {
        return;
    }
    let shelf = Shelf::new();
    let mut wanted = Vec::new();
    for (parent, children) in [("alpha", 0..4), ("beta", 4..7), ("gamma", 7..10)] {
        let children: Vec<String> = children.map(|n| format!("child{n}")).collect();
        let needs: Vec<&str> = children.iter().map(String::as_str).collect();
        wanted.push((parent.to_owned(), shelf.wheel(parent, "1.0", &needs)));
        wanted.extend(children.iter().map(|child| (child.clone(), shelf.wheel(child, "2.0", &[]))));
    }
    let rig = Rig::new(&shelf, OPEN);
    rig.pip(&["alpha", "beta", "gamma"]).succeeds();
    let mut hashes: Vec<String> = wanted.iter().map(|(_, bytes)| parcel::sha256(bytes)).collect();
    hashes.sort();
    let mut recorded: Vec<String> = rig.served().into_iter().map(|(_, hash)| hash).collect();
    recorded.sort();
    assert_eq!((recorded.len(), &recorded), (13, &hashes));
    let mut versions: Vec<String> = rig.told().iter().map(|event| format!("{}-{}", event.name, event.version)).collect();
    versions.sort();
    assert_eq!(installed(&rig), versions);
    let event = rig.told().into_iter().find(|event| event.name == "alpha").unwrap();
    let source = shelf.upstream.url("/files/alpha-1.0-py3-none-any.whl");
    assert_eq!((event.source, event.is_from_cache, event.bytes), (Some(source), false, wanted[0].1.len() as u64));
    assert!(shelf.upstream.asked().iter().all(|asked| asked.authorization.as_deref() == Some("Basic bWU6d29yZA==")));
}

#[test]
fn pk_06_a_look_alike_name_is_refused() {
    let shelf = Shelf::new();
    shelf.wheel("requests", "2.31.0", &[]);
    shelf.wheel("reqeusts", "9.9", &[]);
    let rig = Rig::new(&shelf, &listed("\"python:requests>=2.31,<3\""));
    if has("pip") {
        rig.pip(&["reqeusts"]).fails_saying("ringfence: python package reqeusts is not on the list (rule: allowlist)");
        rig.pip(&["reqeusts==9.9"]).fails_saying("ringfence.allowlist");
        rig.pip(&["Requests"]).succeeds();
    }
    let said = rig.get("/python/simple/reqeusts/");
    assert_eq!((said.status, said.reason.as_str()), (403, "ringfence: python package reqeusts is not on the list (rule: allowlist)"));
    assert!(!shelf.upstream.was_asked_about("reqeusts"));
    assert!(rig.refused().contains(&"reqeusts  : allowlist".to_owned()));
}

#[test]
fn pk_07_an_unpinned_child_of_a_pinned_parent_is_refused() {
    let shelf = Shelf::new();
    let parent = shelf.wheel("parent", "1.0", &["child"]);
    shelf.wheel("parent", "1.1", &[]);
    shelf.wheel("child", "1.0", &[]);
    let lock = format!("parent==1.0 --hash=sha256:{}\n", parcel::sha256(&parent));
    let rig = Rig::with(&shelf, LOCKED, parse_lock("requirements.txt", &lock).unwrap(), |_| {});
    if has("pip") {
        rig.pip(&["parent"]).fails_saying("ringfence: python package child is in no lock file (rule: lock file)");
        rig.write("work/requirements.txt", &lock);
        rig.pip(&["--no-deps", "-r", "requirements.txt"]).succeeds();
        assert_eq!(installed(&rig), ["parent-1.0"]);
    }
    let listing = rig.get("/python/simple/parent/").text();
    assert!(listing.contains("parent-1.0-py3") && !listing.contains("parent-1.1"), "{listing}");
    let said = rig.get("/python/files/parent/parent-1.1-py3-none-any.whl");
    assert_eq!((said.status, said.text().as_str()), (403, "ringfence: parent 1.1 is in no lock file (rule: lock file)\n"));
    assert!(!shelf.upstream.was_asked_about("child"));
}

#[test]
fn pk_08_a_version_younger_than_the_least_age_is_refused_until_the_clock_has_moved() {
    let shelf = Shelf::new();
    let hour_ago = time::OffsetDateTime::now_utc() - time::Duration::hours(1);
    let hour_ago = hour_ago.format(&time::format_description::well_known::Rfc3339).unwrap();
    shelf.wheel("young", "1.0", &[]);
    shelf.wheel_of("young", "2.0", &[], &hour_ago);
    shelf.wheel_of("baby", "1.0", &[], &hour_ago);
    shelf.python_file("ageless", "ageless-1.0-py3-none-any.whl", &parcel::wheel("ageless", "1.0", &[]), json!({ "upload-time": null }));
    let rig = Rig::with(&shelf, "python = \"open\"\nminimum-age = \"72h\"\n", Default::default(), |setup| setup.clock = moved_clock);
    if has("pip") {
        rig.pip(&["young"]).succeeds();
        assert_eq!(installed(&rig), ["young-1.0"]);
        rig.pip(&["young==2.0"]).fails_saying("ringfence: young 2.0 is younger than 72 h (rule: minimum age)");
        rig.pip(&["baby"]).fails_saying("ringfence: baby 1.0 is younger than 72 h (rule: minimum age)");
        rig.pip(&["ageless"]).fails_saying("ringfence: ageless 1.0 has no time of publication in the index (rule: minimum age)");
    }
    assert_eq!(rig.get("/python/files/young/young-2.0-py3-none-any.whl").status, 403);
    assert!(rig.refused().contains(&"young 2.0 : minimum age".to_owned()), "{:?}", rig.refused());
    move_clock(72);
    assert_eq!(rig.get("/python/files/young/young-2.0-py3-none-any.whl").status, 200);
    if has("pip") {
        rig.pip(&["--upgrade", "young"]).succeeds();
        assert!(installed(&rig).contains(&"young-2.0".to_owned()));
    }
}

#[test]
fn pk_09_a_poisoned_cache_file_is_fetched_anew() {
    let shelf = Shelf::new();
    let bytes = shelf.wheel("clean", "1.0", &[]);
    let rig = Rig::new(&shelf, OPEN);
    let path = "/python/files/clean/clean-1.0-py3-none-any.whl";
    assert_eq!(rig.get(path).body, bytes);
    let kept = rig.folder.path().join(format!("cache/files/zip-sha256-{}", parcel::sha256(&bytes)));
    std::fs::write(&kept, b"poison").unwrap();
    let second = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.cache = rig.folder.path().join("cache"));
    assert_eq!(second.get(path).body, bytes);
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    let third = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.cache = rig.folder.path().join("cache"));
    assert_eq!(third.get(path).body, bytes);
    let from_cache = |rig: &Rig| rig.told().iter().map(|event| event.is_from_cache).collect::<Vec<_>>();
    assert_eq!((from_cache(&second), from_cache(&third)), (vec![false], vec![true]));
}

#[test]
fn pk_01_no_request_is_passed_on_to_another_place() {
    let (shelf, bait) = (Shelf::new(), Shelf::new());
    bait.wheel("prize", "1.0", &[]);
    let rig = Rig::new(&shelf, OPEN);
    let bait_url = bait.upstream.url("/simple/prize/");
    for request in [
        format!("GET {bait_url} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", bait.upstream.address),
        format!("CONNECT {0} HTTP/1.1\r\nhost: {0}\r\nconnection: close\r\n\r\n", bait.upstream.address),
        format!("GET /python/files/prize/{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", bait_url.replace('/', "%2F")),
        format!("GET /python/simple/..%2F..%2F{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", bait.upstream.address),
    ] {
        assert!(rig.request(&request).status >= 400, "{request}");
    }
    assert!(bait.upstream.asked().is_empty());
}

#[test]
fn a_file_that_does_not_match_its_hash_is_refused() {
    let shelf = Shelf::new();
    shelf.wheel("idna", "3.7", &[]);
    let other = parcel::wheel("idna", "3.7", &["more"]);
    shelf.upstream.say("/files/idna-3.7-py3-none-any.whl", Reply::Page("application/octet-stream", other));
    let rig = Rig::new(&shelf, OPEN);
    let text = "ringfence: wheel idna-3.7-py3-none-any.whl does not match its hash (rule: hashes of the index)";
    if has("pip") {
        rig.pip(&["idna"]).fails_saying(text);
    }
    let said = rig.get("/python/files/idna/idna-3.7-py3-none-any.whl");
    assert_eq!((said.status, said.text()), (403, format!("{text}\n")));
    assert_eq!(rig.refused(), ["idna 3.7 idna-3.7-py3-none-any.whl: hashes of the index"]);
    assert_eq!(rig.folder.path().join("cache/drafts").read_dir().unwrap().count(), 0);
}

#[test]
fn a_pinned_file_has_the_bytes_that_were_pinned_whatever_the_index_says() {
    let shelf = Shelf::new();
    let bytes = parcel::wheel("idna", "3.7", &[]);
    // The index names another algorithm than the lock, so only the bytes can tell.
    let sha512 = "0".repeat(128);
    shelf.python_file("idna", "idna-3.7-py3-none-any.whl", &bytes, json!({}));
    let pinned = |hash: &str| parse_lock("requirements.txt", &format!("idna==3.7 --hash={hash}\n")).unwrap();
    let get = |hash: &str| {
        let rig = Rig::with(&shelf, LOCKED, pinned(hash), |_| {});
        let said = rig.get("/python/files/idna/idna-3.7-py3-none-any.whl");
        (said.status, said.text())
    };
    let refused = get(&format!("sha512:{sha512}"));
    assert_eq!(refused.0, 403);
    assert!(refused.1.contains("has another hash than in the lock file (rule: hashes of the lock file)"), "{}", refused.1);
    assert!(get(&format!("sha256:{}", "0".repeat(64))).1.contains("another hash in the index than in the lock file"));
    assert_eq!(get(&format!("sha256:{}", parcel::sha256(&bytes))).0, 200);
}

#[test]
fn a_source_distribution_is_hidden_unless_source_builds_are_allowed() {
    let shelf = Shelf::new();
    let source = parcel::tarball(&[parcel::Entry::file("built-1.0/PKG-INFO", b"Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")]);
    shelf.python_file("built", "built-1.0.tar.gz", &source, json!({}));
    let rig = Rig::new(&shelf, OPEN);
    let text = "ringfence: built 1.0 would be built from source (rule: source builds)";
    if has("pip") {
        rig.pip(&["built"]).fails_saying(text);
    }
    let said = rig.get("/python/files/built/built-1.0.tar.gz");
    assert_eq!((said.status, said.text()), (403, format!("{text}\n")));
    let any = Rig::new(&shelf, &format!("{OPEN}source-builds = \"any\"\n"));
    assert_eq!(any.get("/python/files/built/built-1.0.tar.gz").body, source);
}

#[test]
fn a_file_without_a_hash_and_a_language_without_packages_are_refused() {
    let shelf = Shelf::new();
    shelf.python_file("bare", "bare-1.0-py3-none-any.whl", &parcel::wheel("bare", "1.0", &[]), json!({ "hashes": {} }));
    let rig = Rig::new(&shelf, OPEN);
    assert!(rig.get("/python/files/bare/bare-1.0-py3-none-any.whl").text().contains("has no hash in the index"));
    let off = Rig::new(&shelf, "node = \"open\"\n");
    assert_eq!(
        off.get("/python/simple/bare/").text(),
        "ringfence: python package bare is of a language without packages (rule: packages off)\n"
    );
    if has("pip") {
        off.pip(&["bare"]).fails_saying("(rule: packages off)");
    }
}

#[test]
fn metadata_beside_a_wheel_is_passed_on_only_with_its_hash_and_for_allowed_files() {
    let shelf = Shelf::new();
    let text = parcel::metadata("lean", "1.0", &[]);
    let facts = json!({ "core-metadata": { "sha256": parcel::sha256(text.as_bytes()) } });
    shelf.python_file("lean", "lean-1.0-py3-none-any.whl", &parcel::wheel("lean", "1.0", &[]), facts);
    let path = "/files/lean-1.0-py3-none-any.whl.metadata";
    shelf.upstream.say(path, Reply::Page("text/plain", text.clone().into_bytes()));
    let rig = Rig::new(&shelf, OPEN);
    assert_eq!(rig.get("/python/files/lean/lean-1.0-py3-none-any.whl.metadata").text(), text);
    let listed = Rig::new(&shelf, &listed("\"python:lean>1\""));
    assert_eq!(listed.get("/python/files/lean/lean-1.0-py3-none-any.whl.metadata").status, 403);
    shelf.upstream.say(path, Reply::Page("text/plain", b"other".to_vec()));
    let wrong = Rig::new(&shelf, OPEN).get("/python/files/lean/lean-1.0-py3-none-any.whl.metadata");
    assert!(wrong.status == 403 && wrong.text().contains("metadata of lean-1.0-py3-none-any.whl does not match its hash"));
}

#[test]
fn an_upstream_that_knows_only_html_serves_clients_that_do_too() {
    let shelf = Shelf::new();
    let bytes = shelf.wheel("plain", "1.0", &[]);
    let html = format!(
        "<html><body><a href=\"../../files/plain-1.0-py3-none-any.whl#sha256={}\">plain-1.0-py3-none-any.whl</a></body></html>",
        parcel::sha256(&bytes)
    );
    shelf.upstream.say("/simple/plain/", Reply::Page("text/html", html.into_bytes()));
    let rig = Rig::new(&shelf, OPEN);
    let said = rig.get("/python/simple/plain/");
    let link = format!("<a href=\"/python/files/plain/plain-1.0-py3-none-any.whl#sha256={}\">", parcel::sha256(&bytes));
    assert!(said.headers.contains("text/html") && said.text().contains(&link), "{}", said.text());
    if has("pip") {
        rig.pip(&["plain"]).succeeds();
    }
}

/// The files alone must do, for programs that are started with an empty environment.
#[test]
fn pip_finds_the_index_by_its_file_and_installs_for_a_person_and_into_a_venv() {
    if !has("pip") {
        return;
    }
    let shelf = Shelf::new();
    shelf.wheel("filed", "1.0", &[]);
    let rig = Rig::new(&shelf, OPEN);
    let file = [("PIP_CONFIG_FILE".to_owned(), rig.lay_files().join("etc/pip.conf").display().to_string())];
    let python = Path::new("/usr/bin/python3");
    rig.run_with(python, "work", &["-m", "pip", "install", "--user", "filed"], &file).succeeds();
    rig.run_with(python, "work", &["-c", "import filed"], &[]).succeeds();
    rig.run_with(python, "work", &["-m", "venv", "venv"], &[]).succeeds();
    let venv = rig.path("work").join("venv/bin/python3");
    rig.run_with(&venv, "work", &["-m", "pip", "install", "filed"], &file).succeeds();
}

/// uv is not in the image; it is here where a person, or `make test`, put it.
fn uv() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/uv");
    let found = [here, "/usr/local/bin/uv".into(), "/usr/bin/uv".into()].into_iter().find(|path| path.exists());
    if found.is_none() {
        println!("skipped: uv is not installed");
    }
    found
}

#[test]
fn uv_installs_what_is_allowed_and_says_why_not() {
    let Some(uv) = uv() else { return };
    let shelf = Shelf::new();
    shelf.wheel("good", "1.0", &["child"]);
    shelf.wheel("child", "1.0", &[]);
    shelf.wheel("bad", "1.0", &[]);
    let rig = Rig::new(&shelf, &listed("\"python:good\", \"python:child\""));
    let install =
        |name: &str| rig.run(&uv, "work", &["pip", "install", "--no-cache", "--python", "/usr/bin/python3", "--target", "site", name]);
    install("good").succeeds();
    assert_eq!(installed(&rig), ["child-1.0", "good-1.0"]);
    assert_eq!(rig.served().len(), 2);
    // By its file alone, as for pip.
    let file = [("XDG_CONFIG_DIRS".to_owned(), rig.lay_files().join("etc").display().to_string())];
    let command = ["pip", "install", "--no-cache", "--python", "/usr/bin/python3", "--target", "other", "good"];
    rig.run_with(&uv, "work", &command, &file).succeeds();
    install("bad").fails_saying("ringfence: python package bad is not on the list (rule: allowlist)");
}

/// The lock file is uv's own, written against another address.
#[test]
fn a_lock_of_uvs_own_installs_what_it_pins_although_there_is_newer() {
    let Some(uv) = uv() else { return };
    let shelf = Shelf::new();
    shelf.wheel("good", "1.0", &[]);
    let project = "[project]\nname = \"app\"\nversion = \"0\"\nrequires-python = \">=3.8\"\ndependencies = [\"good\"]\n";
    let uv = |rig: &Rig, arguments: &[&str]| rig.run(&uv, "work", &[arguments, &["--no-cache", "--python", "/usr/bin/python3"]].concat());
    let open = Rig::new(&shelf, OPEN);
    open.write("work/pyproject.toml", project);
    uv(&open, &["lock"]).succeeds();
    let lock = std::fs::read_to_string(open.path("work").join("uv.lock")).unwrap();
    shelf.wheel("good", "1.1", &[]);
    let locked = Rig::with(&shelf, LOCKED, parse_lock("uv.lock", &lock).unwrap(), |_| {});
    locked.write("work/pyproject.toml", project);
    locked.write("work/uv.lock", &lock);
    uv(&locked, &["sync"]).succeeds();
    assert_eq!(locked.served().into_iter().map(|(file, _)| file).collect::<Vec<_>>(), ["good-1.0-py3-none-any.whl"]);
}

#[test]
fn a_refusal_is_told_once_and_a_served_file_too() {
    let shelf = Shelf::new();
    shelf.wheel("once", "1.0", &[]);
    let rig = Rig::new(&shelf, &listed("\"python:once\""));
    for _ in 0..3 {
        assert_eq!(rig.get("/python/files/once/once-1.0-py3-none-any.whl").status, 200);
        assert_eq!(rig.get("/python/simple/other/").status, 403);
    }
    let decisions: Vec<bool> = rig.told().iter().map(|event| event.decision == PackageDecision::Served).collect();
    assert_eq!(decisions, [true, false]);
}
