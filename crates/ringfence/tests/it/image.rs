//! Images by the real binary: imported, run in, moved and removed, as root and as an ordinary user.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::{fs, path::Path};

use serde_json::Value;

use crate::support::{Place, binary, eventually};

/// The limits of a profile that executes.
const LIMITS: &str = "[process]\nspawn = \"any\"\n[limits]\nwall = \"20s\"\ncpu = \"20s\"\nmemory = \"256MiB\"\nprocesses = 64\noutput = \"1MiB\"\n\
    disk = \"64MiB\"\nfiles = 1000\nopen-files = 256\nartifacts = 10\nartifact-bytes = \"1MiB\"\n[files]\ninputs = \"named\"\nproject = \"view\"\n\
    exports = [\"**\"]\nstorage = \"disk\"\n";

/// A root file system of one program with many names, as an archive of a stranger's. `mark` makes it another image.
pub(crate) fn busybox(place: &Place, mark: &str) -> PathBuf {
    let program = fs::read("/usr/bin/busybox").or_else(|_| fs::read("/bin/busybox"));
    let program = program.expect("`busybox` is missing: `make test` installs it as root, or: apt-get install busybox-static");
    let mut tar = tar::Builder::new(Vec::new());
    let mut put = |kind: tar::EntryType, path: &str, link: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(content.len() as u64);
        match link {
            "" => tar.append_data(&mut header, path, content).unwrap(),
            link => tar.append_link(&mut header, path, link).unwrap(),
        }
    };
    put(tar::EntryType::Regular, "bin/busybox", "", &program);
    for name in ["sh", "cat", "ls", "id", "echo", "touch", "cp", "sleep", "readlink", "env"] {
        put(tar::EntryType::Symlink, &format!("bin/{name}"), "busybox", b"");
    }
    put(tar::EntryType::Symlink, "escape", "/../../../../etc/passwd", b"");
    put(tar::EntryType::Regular, "start.sh", "", b"#!/bin/sh\necho started by $(id -un)\n");
    put(tar::EntryType::Regular, "mark", "", mark.as_bytes());
    put(tar::EntryType::Char, "dev/mem", "", b"");
    place.write("busybox.tar", tar.into_inner().unwrap())
}

/// Imports it under a name, and answers with its digest.
fn import(place: &Place, mark: &str, name: &str) -> String {
    let outcome = place.ringfence(&["image", "import", busybox(place, mark).to_str().unwrap(), "--name", name]);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    outcome.stdout.trim().to_owned()
}

/// A profile whose runs see an image.
pub(crate) fn profile(place: &Place, image: &str) -> String {
    let text = format!("name = \"with-image\"\nexecution = \"commands\"\nimage = \"{image}\"\n{LIMITS}");
    place.write("with-image.toml", text).to_str().unwrap().to_owned()
}

fn event(place: &Place, run: &Value, kind: &str) -> Value {
    let path = place.home().join("runs").join(run.as_str().unwrap()).join("events.jsonl");
    let lines = fs::read_to_string(path).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.into_iter().find_map(|e| find(&e, kind)).unwrap()
}

/// An event wherever its chain keeps it.
fn find(value: &Value, kind: &str) -> Option<Value> {
    if value.get("event").and_then(Value::as_str) == Some(kind) {
        return Some(value.clone());
    }
    value.as_object()?.values().find_map(|inner| find(inner, kind))
}

#[test]
fn a_run_sees_an_imported_image_and_nothing_of_the_host() {
    for place in Place::each() {
        let digest = import(&place, "one", "tools:1");
        let profile = profile(&place, "tools:1");
        let script = "id -un; cat /mark; echo; ls /usr /lib 2>&1 | grep -c 'No such'; cat /escape | head -n1; /start.sh; readlink /proc/self/exe; \
            touch /bin/x 2>/dev/null || echo read-only; [ -u /bin/busybox ] || echo plain; ls /dev/mem 2>/dev/null; cat /proc/self/mountinfo";
        let script = script.replace("grep", "/bin/busybox grep").replace("head", "/bin/busybox head");
        let (report, status) = place.report(&["--profile", &profile], &["sh", "-c", &script]);
        let said = report["stdout"].as_str().unwrap_or_else(|| panic!("{report}")).to_owned();
        assert_eq!(status, 0, "{:?} {report}", place.user);
        let (head, mounts) = said.split_at(said.find("plain\n").unwrap() + 6);
        let agent = "agent\none\n2\nagent:x:1000:1000:agent:/workspace:/bin/sh\nstarted by agent\n/bin/busybox\nread-only\nplain\n";
        assert_eq!(head, agent, "{:?}", place.user);
        assert!(!mounts.contains(place.home().to_str().unwrap()) && !mounts.contains("sha256-"), "{mounts}");
        let creating = event(&place, &report["run"], "sandbox_creating");
        assert_eq!((creating["image_digest"].as_str(), creating["image"].as_str()), (Some(digest.as_str()), Some("tools:1")));
        place.assert_clean();
    }
}

#[test]
fn inputs_projects_exports_and_storage_on_disk_work_in_an_imported_image() {
    for place in Place::each() {
        import(&place, "x", "tools");
        let (profile, input) = (profile(&place, "tools"), place.write("data.csv", "a,b\n"));
        place.write("project/a", "old\n");
        let script = "cat /inputs/data.csv > got; echo new > a; cp got out";
        let project = place.path("project");
        for storage in ["memory", "disk"] {
            let options = ["--profile", &profile, "--input", input.to_str().unwrap(), "--project", project.to_str().unwrap()];
            let named = ["--storage", storage, "--export", "out", "--export", "changes.patch"];
            let (report, status) = place.report(&[options.as_slice(), &named].concat(), &["sh", "-c", script]);
            assert_eq!((report["artifacts"].as_array().map(Vec::len), status), (Some(2), 0), "{storage} {report}");
        }
        assert_eq!(fs::read_to_string(project.join("a")).unwrap(), "old\n");
        place.assert_clean();
    }
}

#[test]
fn what_an_image_allows_is_as_it_declares() {
    for place in Place::each() {
        let digest = import(&place, "x", "tools");
        let profile = profile(&place, "tools");
        let audit = place.ringfence(&["audit", "--format", "json", "--profile", &profile]);
        let answers: Value = serde_json::from_str(&audit.stdout).unwrap_or_else(|e| panic!("{e} {audit:?}"));
        assert_eq!((answers["differences"].as_u64(), audit.status), (Some(0), 0), "{:?} {}", place.user, audit.stderr);
        assert_eq!(answers["image"].as_str().unwrap(), format!("tools:latest@{digest}"));
        let explained = place.ringfence(&["run", "--explain", "--profile", &profile]).stdout;
        assert!(explained.contains(&format!("image: tools:latest@{digest}")), "{explained}");
        let matrix = place.ringfence(&["matrix", "--format", "md", "--profile", &profile]).stdout;
        assert!(matrix.contains("| image | tools:latest |"), "{matrix}");
    }
}

/// PK-12: the tag stands for another digest by now.
#[test]
fn a_pinned_image_is_exactly_that_or_the_run_is_refused() {
    for place in Place::each() {
        let old = import(&place, "old", "tools");
        let pinned = profile(&place, &format!("tools@{old}"));
        let new = import(&place, "new", "tools");
        let run = |profile: &str| place.report(&["--profile", profile], &["cat", "/mark"]);
        let (report, _) = run(&pinned);
        assert_eq!(report["stdout"], "old");
        assert_eq!(event(&place, &report["run"], "sandbox_creating")["image_digest"].as_str().unwrap(), old);
        assert_eq!(place.ringfence(&["image", "rm", &old]).status, 0);
        let (report, status) = run(&pinned);
        assert_eq!((report["end"]["kind"].as_str(), status), (Some("refused"), 125));
        let rule = format!("image `tools:latest` has moved: it is {new} now, and {old} is not here");
        assert_eq!(report["end"]["rule"].as_str().unwrap(), rule);
        assert_eq!(event(&place, &report["run"], "run_refused")["layer"], "host");
        let tagged = profile(&place, "tools");
        assert_eq!(run(&tagged).0["stdout"], "new");
        assert_eq!(place.ringfence(&["image", "rm", "tools"]).status, 0);
        let (report, status) = run(&tagged);
        assert_eq!((report["end"]["rule"].as_str(), status), (Some("there is no image `tools:latest` here"), 125));
        assert!(report["end"]["hint"].as_str().unwrap().contains("ringfence image import SOURCE --name tools:latest"));
    }
}

#[test]
fn an_image_is_not_removed_under_a_run() {
    for place in Place::each() {
        import(&place, "x", "tools");
        let profile = profile(&place, "tools");
        let mut run = place.command(binary());
        run.args(["run", "--profile", &profile, "--", "sh", "-c", "echo up; sleep 3; cat /mark"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        let mut up = [0; 3];
        std::io::Read::read_exact(run.stdout.as_mut().unwrap(), &mut up).unwrap();
        let refused = place.ringfence(&["image", "rm", "tools"]);
        assert!(refused.status == 125 && refused.stderr.contains("in use by a run"), "{refused:?}");
        let output = run.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap().as_str()), (Some(0), "x"));
        assert_eq!(place.ringfence(&["image", "rm", "tools"]).status, 0);
        assert!(!place.ringfence(&["image", "ls"]).stdout.contains("tools"));
    }
}

#[test]
fn a_ceiling_decides_which_images_are_seen() {
    for place in Place::each() {
        let digest = import(&place, "x", "tools");
        let profile = profile(&place, "tools");
        let run = |ceiling: &str| {
            let settings = place.write("own.toml", format!("[ceiling]\nimage = {ceiling}\n"));
            place.report(&["--config", settings.to_str().unwrap(), "--profile", &profile], &["cat", "/mark"]).0
        };
        assert_eq!(run("\"host\"")["end"]["layer"], "ceiling");
        assert_eq!(run(&format!("[\"host\", \"{digest}\"]"))["stdout"], "x");
        let other = run(&format!("[\"sha256:{}\"]", "0".repeat(64)));
        assert!(other["end"]["rule"].as_str().unwrap().contains("has moved"), "{other}");
    }
}

#[test]
fn what_a_killed_import_left_is_swept_by_the_next() {
    let place = Place::new(crate::support::users()[0]);
    let images = place.home().join("images");
    let archive = busybox(&place, "x");
    assert_eq!(place.ringfence(&["image", "ls"]).status, 0);
    for _ in 0..20 {
        let mut import = place.command(binary());
        let mut import =
            import.args(["image", "import", archive.to_str().unwrap()]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let has_draft = || fs::read_dir(&images).unwrap().flatten().any(|e| e.file_name().to_string_lossy().starts_with("draft-"));
        eventually("a draft", || has_draft() || images.join("x").exists() || listed(&place));
        import.kill().unwrap();
        import.wait().unwrap();
    }
    import(&place, "x", "tools");
    let left: Vec<String> = fs::read_dir(&images).unwrap().flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    assert!(!left.iter().any(|name| name.starts_with("draft-")), "{left:?}");
}

fn listed(place: &Place) -> bool {
    place.ringfence(&["image", "ls", "--json"]).stdout.contains("sha256:")
}

#[test]
fn what_is_no_image_is_refused_with_a_hint() {
    for place in Place::each() {
        let refuse = |arguments: &[&str], cause: &str| {
            let outcome = place.ringfence(&[&["image"], arguments].concat());
            assert!(outcome.status == 125 && outcome.stderr.contains(cause) && outcome.stderr.contains("hint: "), "{outcome:?}");
        };
        let text = place.write("text", "no image");
        refuse(&["import", text.to_str().unwrap()], "too early");
        refuse(&["import", "/nonexistent"], "open `/nonexistent`");
        refuse(&["import", "/dev/null"], "holds no image");
        refuse(&["import", text.to_str().unwrap(), "--name", "../x"], "not the name of an image");
        refuse(&["rm", "tools"], "there is no image `tools:latest`");
        refuse(&["rm", "host"], "cannot be removed");
        let kept = fs::read_dir(place.home().join("images")).unwrap().count();
        assert_eq!(kept, 0);
        assert_eq!(fs::metadata(place.home().join("images")).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(!Path::new("/nonexistent").exists());
}
