//! A project as a view: never written back, secrets hidden and listed, the rest readable and buildable, changes as a patch.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use serde_json::json;

use crate::support::{Outcome, Place, is_root, outcome};

/// A project with planted secrets and, as root, a private file of root's.
fn planted(place: &Place) -> String {
    place.write("p/src/main.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n");
    place.write("p/Makefile", "main: src/main.c\n\tcc -o main src/main.c\n");
    place.write("p/.env", "TOKEN=CANARY_ENV_FILE\n");
    place.write("p/.npmrc", "//registry/:_authToken=CANARY_NPM\n");
    place.write("p/deploy/id_ed25519", "CANARY_KEY\n");
    let private = place.write("p/private.txt", "mine\n");
    fs::set_permissions(private, fs::Permissions::from_mode(0o600)).unwrap();
    let git = |arguments: &[&str]| {
        let done = place
            .command("git")
            .current_dir(place.path("p"))
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "{arguments:?} {done:?}");
    };
    git(&["init", "-q", "."]);
    git(&["config", "remote.origin.url", "https://me:CANARY_GIT@example.com/x.git"]);
    git(&["add", "src", "Makefile", "private.txt"]);
    git(&["commit", "-qm", "first"]);
    git(&["config", "core.fsmonitor", "touch /workspace/PWNED"]);
    place.path("p").to_str().unwrap().to_owned()
}

#[test]
fn none_of_the_planted_secrets_is_visible_and_the_report_lists_them() {
    for place in Place::each() {
        let project = planted(&place);
        let (report, status) = place.report(
            &["--project", &project],
            &["bash", "-c", "grep -r CANA''RY . ; ls -A . deploy; cat private.txt; git status --short; git log --oneline | wc -l"],
        );
        assert_eq!(status, 0, "{report}");
        assert_eq!(
            report["stdout"], ".:\n.git\nMakefile\ndeploy\nprivate.txt\nsrc\n\ndeploy:\nmine\n1\n",
            "{:?} {}",
            place.user, report["stderr"]
        );
        let mut hidden: Vec<&str> = report["hidden"].as_array().unwrap().iter().map(|h| h["path"].as_str().unwrap()).collect();
        hidden.sort_unstable();
        assert_eq!(hidden, [".env", ".git/hooks", ".npmrc", "deploy/id_ed25519"]);
        let events = place.ringfence(&["evidence", "show", "--json", report["run"].as_str().unwrap()]).stdout;
        assert!(events.contains(".npmrc: may hold secrets") && !events.contains("CANARY"), "{events}");
    }
}

#[test]
fn the_rest_builds_and_nothing_is_written_back() {
    for place in Place::each() {
        let project = planted(&place);
        let before = listing(Path::new(&project));
        let outcome =
            place.bash(&["--quiet", "--project", &project], "make 2>&1 && ./main && rm -rf src .git && echo x > new && chmod 777 Makefile");
        assert!(outcome.stdout.ends_with("built\n"), "{outcome:?}");
        assert_eq!(listing(Path::new(&project)), before);
        place.assert_clean();
    }
}

#[test]
fn reveal_works_only_where_the_profile_allows() {
    for place in Place::each() {
        let project = planted(&place);
        let refused = place.bash(&["--project", &project, "--reveal", ".env"], "cat .env");
        assert_eq!((refused.status, refused.stdout.as_str()), (125, ""));
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
        place
            .write("open.toml", shown.replace("reveal = []", "reveal = [\".env\"]").replace("name = \"data-analysis\"", "name = \"open\""));
        let revealed = place.bash(&["--quiet", "--profile", "open.toml", "--project", &project, "--reveal", ".env"], "cat .env .npmrc");
        assert_eq!(revealed.stdout, "TOKEN=CANARY_ENV_FILE\n", "{revealed:?}");
    }
}

#[test]
fn a_project_of_root_with_private_files_is_the_agents_own() {
    for place in Place::each().into_iter().filter(|_| is_root()) {
        let project = place.write("p/private.txt", "of root\n");
        fs::set_permissions(&project, fs::Permissions::from_mode(0o600)).unwrap();
        let (report, _) = place.report(
            &["--project", place.path("p").to_str().unwrap()],
            &["bash", "-c", "cat private.txt; stat -c '%U %a' private.txt; echo more >> private.txt"],
        );
        assert_eq!(report["stdout"], "of root\nagent 600\n", "{report}");
        assert_eq!(fs::read_to_string(&project).unwrap(), "of root\n");
    }
}

/// Files of several owners cannot all be the agent's by a map: a private copy is made.
#[test]
fn a_project_with_files_of_several_owners_is_copied() {
    for place in Place::each().into_iter().filter(|_| is_root()) {
        place.write("p/a.txt", "a\n");
        let other = place.write("p/b.txt", "b\n");
        chown(&other, Some(12_345), Some(12_345)).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
        place.write("p/.env", "SECRET");
        let options = ["--project", place.path("p").to_str().unwrap(), "--export", "changes.patch", "--out", "out"].map(str::to_owned);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let (report, _) = place.report(&options, &["bash", "-c", "ls -A; echo 1 >> a.txt; echo 2 >> b.txt; rm -f nothing"]);
        assert_eq!(report["stdout"], "a.txt\nb.txt\n", "{:?} {report}", place.user);
        let patch = fs::read_to_string(place.path("out/changes.patch")).unwrap();
        assert!(patch.contains("+++ b/a.txt") && patch.contains("+++ b/b.txt") && !patch.contains(".env"), "{patch}");
        place.assert_clean();
    }
}

/// Applies the patch of a run to a fresh copy; both trees must be equal byte for byte.
#[test]
fn the_patch_reproduces_the_tree_byte_for_byte() {
    for place in Place::each() {
        let project = planted(&place);
        let script = "printf 'int x;\\r\\n' > src/crlf.c; head -c 5000 /dev/urandom > blob.bin; ln -s src/main.c link; rm private.txt; chmod +x Makefile; \
                      printf 'no end' > 'odd name'; printf x > $'tab\\there'; printf y > $'byte\\xff'; mkdir -p deep/er; echo z > deep/er/z; \
                      sed -i 's/built/rebuilt/' src/main.c; : > empty; rm -rf src/none; mkdir onlyfolder; rm -r src && mkdir src && echo new > src/new.c; \
                      tar cf /workspace/tree.tar --sort=name --mtime=@0 --owner=0 --group=0 --exclude=.git --exclude=tree.tar --exclude=onlyfolder .";
        let (report, status) = place
            .report(&["--project", &project, "--export", "changes.patch", "--export", "tree.tar", "--out", "out"], &["bash", "-c", script]);
        assert_eq!(status, 0, "{report}");
        let check = format!(
            "set -e; cp -r {project} copy; cd copy; git -c core.fsmonitor= apply --whitespace=nowarn --exclude=tree.tar ../out/changes.patch; mkdir ../want; tar xf ../out/tree.tar -C ../want; \
             rm -rf .git .env .npmrc deploy/id_ed25519; find . -type d -empty -delete; find ../want -mindepth 1 -type d -empty -delete; diff -r --no-dereference . ../want && echo SAME; stat -c %a Makefile"
        );
        let outcome: Outcome = outcome(place.command("/bin/bash").args(["-c", &check]).output().unwrap());
        assert_eq!(outcome.stdout, "SAME\n755\n", "{:?} {outcome:?}", place.user);
        let patch = fs::read(place.path("out/changes.patch")).unwrap();
        let first = String::from_utf8_lossy(patch.split(|b| *b == b'\n').next().unwrap()).into_owned();
        assert!(
            first.contains("links: link") && first.contains("mode changes: Makefile") && first.contains("start programs: Makefile"),
            "{first}"
        );
    }
}

#[test]
fn what_the_base_ignores_and_git_itself_are_left_out_and_counted() {
    for place in Place::each() {
        let project = planted(&place);
        place.write("p/.gitignore", "target/\n*.log\n");
        let script = "mkdir target; echo x > target/out; echo y > a.log; echo z > kept; git config alias.x '!evil'; echo hook > .git/hooks-new; echo EVIL > .env";
        let (report, status) = place.report(&["--project", &project, "--export", "changes.patch", "--out", "out"], &["bash", "-c", script]);
        let patch = fs::read_to_string(place.path("out/changes.patch")).unwrap();
        let first = patch.lines().next().unwrap();
        assert!(
            first.contains("ignored and left out: 2") && first.contains("in .git and left out: 2") && first.contains("refused: .env"),
            "{first}"
        );
        assert!(patch.contains("+++ b/kept") && !patch.contains("EVIL") && !patch.contains("b/.git/"), "{patch}");
        assert_eq!(
            (&report["refusals"], status),
            (&json!([{"path": ".env", "reason": "left out of changes.patch: stands where a file was hidden"}]), 123)
        );
    }
}

#[test]
fn input_folders_are_read_only_and_hide_their_secrets() {
    for place in Place::each() {
        place.write("data/a.csv", "a\n");
        place.write("data/sub/.env", "SECRET");
        let script = "cat /inputs/data/a.csv; ls -A /inputs/data/sub; ( echo x > /inputs/data/a.csv ) 2>/dev/null || echo refused; ( echo x > /inputs/new ) 2>/dev/null || echo refused";
        let (report, _) = place.report(&["--input", place.path("data").to_str().unwrap()], &["bash", "-c", script]);
        assert_eq!(report["stdout"], "a\nrefused\nrefused\n", "{report}");
        assert_eq!(report["hidden"], json!([{"path": "inputs/data/sub/.env", "reason": "may hold secrets"}]));
        assert_eq!(fs::read_to_string(place.path("data/a.csv")).unwrap(), "a\n");
    }
}

/// Every path below a folder with its bytes and mode.
fn listing(folder: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if meta.is_dir() {
                waiting.push(path.clone());
            }
            found.push((path.display().to_string(), meta.permissions().mode(), bytes));
        }
    }
    found.sort();
    found
}

/// The view is live: what a person changes meanwhile must not be undone by the patch.
#[test]
fn a_file_that_changed_on_the_host_meanwhile_is_refused_and_not_undone() {
    for place in Place::each() {
        place.write("p/both", "1\n2\n3\n");
        place.write("p/mine", "a\n");
        let script = "sed -i s/1/one/ both; echo b >> mine; echo READY; sleep 1.5";
        let mut command = place.command(crate::support::binary());
        command.args(["run", "--project", "p", "--export", "changes.patch", "--out", "out", "--", "bash", "-c", script]);
        let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0u8; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        place.write("p/both", "1\n2\n3 by a person\n");
        let outcome = outcome(child.wait_with_output().unwrap());
        let patch = fs::read_to_string(place.path("out/changes.patch")).unwrap();
        assert_eq!(outcome.status, 123, "{outcome:?}");
        assert!(outcome.stderr.contains("both: left out of changes.patch: was changed on the host while the run went on"), "{outcome:?}");
        assert!(patch.contains("+++ b/mine") && !patch.contains("b/both"), "{patch}");
    }
}

/// Whoever owns a project may swap a file for a link while root copies it.
#[test]
fn a_link_that_is_swapped_in_while_a_project_is_copied_is_not_followed() {
    for place in Place::each().into_iter().filter(|p| is_root() && p.user == crate::support::User::Root) {
        let secret = place.write("secret", "CANARY\n");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        place.write("p/k", "harmless\n");
        std::os::unix::fs::symlink(&secret, place.path("p/l")).unwrap();
        chown(place.write("p/other", "x"), Some(12_345), Some(12_345)).unwrap();
        let (k, l) = (place.path("p/k"), place.path("p/l"));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
        let swapper = std::thread::spawn(move || {
            while std::time::Instant::now() < until {
                rustix::fs::renameat_with(rustix::fs::CWD, &k, rustix::fs::CWD, &l, rustix::fs::RenameFlags::EXCHANGE).unwrap();
            }
        });
        while std::time::Instant::now() < until {
            let outcome = place.bash(&["--quiet", "--project", "p"], "cat k l 2>/dev/null; true");
            assert!(!outcome.stdout.contains("CANARY"), "{outcome:?}");
        }
        swapper.join().unwrap();
    }
}

#[test]
fn the_program_cannot_pass_off_a_patch_of_its_own() {
    for place in Place::each() {
        place.write("p/f", "1\n");
        let (report, status) = place.report(
            &["--project", "p", "--export", "*", "--export", "changes.patch", "--out", "out"],
            &["bash", "-c", "echo 2 >> f; echo FORGED > changes.patch"],
        );
        let patch = fs::read_to_string(place.path("out/changes.patch")).unwrap();
        assert!(patch.starts_with("ringfence changes:") && patch.contains("+++ b/f"), "{patch}");
        assert_eq!((report["refusals"][0]["path"].as_str(), status), (Some("changes.patch"), 123));
    }
}
