//! Patches by somebody who wants more than they show: each ends where it should, and the branch is as it was.

use std::fs;

use serde_json::Value;

use super::rig::{BROKEN, CHECK, FIX, Rig, payload};
use crate::support::{User, users};

/// A patch of one file, as git would write its head.
fn patch(head: &str, body: &str) -> Vec<u8> {
    format!("{head}\n{body}").into_bytes()
}

fn made(path: &str, mode: &str, lines: &[&str]) -> Vec<u8> {
    let body: String = lines.iter().map(|line| format!("+{line}\n")).collect();
    patch(
        &format!("diff --git a/{path} b/{path}\nnew file mode {mode}"),
        &format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{} @@\n{body}", lines.len()),
    )
}

/// Hands a patch in, promotes it, and answers with how that ended.
fn ended(rig: &Rig, bytes: &[u8]) -> Value {
    let before = rig.tip();
    let report = rig.promote(&rig.hand_in(bytes), "main");
    assert_eq!(rig.tip(), before, "the branch is as it was: {report}");
    report
}

#[test]
fn what_git_apply_lets_through_is_refused_by_name() {
    let rig = Rig::with(User::Ordinary, "", "");
    let rename = "diff --git a/calc.py b/README\nsimilarity index 100%\nrename from calc.py\nrename to README\n";
    rig.commit("echo hello > README");
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a link to a file of the host", made("s", "120000", &["/etc/passwd"]), "symbolic link"),
        ("a submodule", made("sub", "160000", &["Subproject commit 1111111111111111111111111111111111111111"]), "submodule"),
        ("set-user-id", made("tool", "104755", &["#!/bin/sh"]), "104755"),
        ("a mode of its own", made("tool", "100777", &["#!/bin/sh"]), "100777"),
        ("submodules by name", made(".gitmodules", "100644", &["[submodule \"x\"]"]), ".gitmodules"),
        ("attributes", made("sub/.gitattributes", "100644", &["* filter=x"]), ".gitattributes"),
        ("the repository itself", made(".git/hooks/post-checkout", "100755", &["#!/bin/sh"]), ".git"),
        ("the same for other file systems", made(".GiT/config", "100644", &["[core]"]), ".GiT"),
        ("and by its short name", made("git~1/config", "100644", &["[core]"]), "git~1"),
        ("outside", made("../outside", "100644", &["x"]), ".."),
        (
            "absolute",
            patch("diff --git a//etc/x b//etc/x\nnew file mode 100644", "--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+x\n"),
            "/etc/x",
        ),
        ("a rename over a file", rename.as_bytes().to_vec(), "README"),
        ("a file that is there", made("calc.py", "100644", &["x"]), "calc.py"),
        (
            "wrong counts",
            patch("diff --git a/calc.py b/calc.py", "--- a/calc.py\n+++ b/calc.py\n@@ -1,9 +1,2 @@\n def total(numbers):\n-x\n+y\n"),
            "line",
        ),
        ("a file that is not there", patch("diff --git a/gone b/gone", "--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-x\n+y\n"), "gone"),
        ("nothing", b"just words\n".to_vec(), "diff"),
        ("plain diff", b"--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-x\n+y\n".to_vec(), "git diff"),
    ];
    for (what, bytes, said) in cases {
        let report = ended(&rig, &bytes);
        assert_eq!(report["state"], "refused", "{what}: {report}");
        assert!(report["cause"].as_str().unwrap().contains(said), "{what} should say `{said}`: {report}");
        rig.assert_verifies(&report);
    }
}

/// harness.md O23: a link, then a write through it.
#[test]
fn a_write_through_a_link_of_the_branch_is_refused() {
    let rig = Rig::with(User::Ordinary, "", "");
    rig.commit("mkdir real && echo x > real/x && ln -s real s && ln -s /etc/passwd p");
    for (path, said) in [("s/new", "link"), ("p", "link")] {
        let report = ended(&rig, &made(path, "100644", &["x"]));
        assert!(report["state"] == "refused" && report["cause"].as_str().unwrap().contains(said), "{path}: {report}");
    }
}

/// harness.md O22.
#[test]
fn line_ends_are_kept_byte_for_byte_or_the_patch_is_refused() {
    let rig = Rig::with(User::Ordinary, "", "");
    rig.commit("printf 'one\\r\\ntwo\\r\\nthree\\r\\n' > dos.txt");
    let body = |end: &str| format!("--- a/dos.txt\n+++ b/dos.txt\n@@ -1,3 +1,3 @@\n one{end}\n-two{end}\n+TWO{end}\n three{end}\n");
    let refused = ended(&rig, &patch("diff --git a/dos.txt b/dos.txt", &body("")));
    assert!(refused["state"] == "refused" && refused["cause"].as_str().unwrap().contains("end with CR LF"), "{refused}");
    let done = rig.promote(&rig.hand_in(&patch("diff --git a/dos.txt b/dos.txt", &body("\r"))), "main");
    assert_eq!(rig.approve(&Rig::approval(&done), "anna").status, 0);
    assert_eq!(rig.file("dos.txt"), b"one\r\nTWO\r\nthree\r\n");
}

#[test]
fn odd_names_and_ends_are_applied_as_they_are() {
    for user in users() {
        let rig = Rig::with(user, "", "");
        let script = "printf 'no end' > end.txt; printf x > $'a\\ttab'; printf x > 'a \"quote\"'; printf x > $'a\\nnewline'; printf x > $'not-\\xff-utf8'; printf '\\0bin' > bin; chmod +x calc.py";
        let asked = rig.promote(&rig.patch(script), "main");
        let approval = Rig::approval(&asked);
        let shown = rig.place.ringfence(&["approval", "show", &approval]).stdout;
        assert!(!shown.contains("a\nnewline") && shown.contains("executable") && shown.contains("binary"), "{shown}");
        assert_eq!(rig.approve(&approval, "anna").status, 0);
        let listed = rig.shell("git -C app.git ls-tree -r --name-only main");
        for name in ["\"a\\ttab\"", "\"a \\\"quote\\\"\"", "\"a\\nnewline\"", "\"not-\\377-utf8\"", "bin", "end.txt"] {
            assert!(listed.lines().any(|line| line == name), "{name}: {listed}");
        }
        assert_eq!((rig.file("end.txt"), rig.file("bin")), (b"no end".to_vec(), b"\0bin".to_vec()));
        assert!(rig.shell("git -C app.git ls-tree main calc.py").starts_with("100755"));
    }
}

#[test]
fn a_patch_that_empties_the_tests_is_checked_with_those_of_the_base() {
    let rig = Rig::with(User::Ordinary, &format!("checks = [\"{CHECK}\"]\nprotected-groups = [\"security\"]\n"), "");
    let cheat = rig.promote(&rig.patch("echo 'print(1)' > tests/test_calc.py"), "main");
    assert_eq!(cheat["state"], "failed", "the tests of the base still fail: {cheat}");
    // With the fix they pass, and the weakened test is for others to decide about.
    let both = rig.promote(&rig.patch(&format!("{FIX}; echo 'print(1)' > tests/test_calc.py")), "main");
    assert_eq!((both["state"].as_str(), both["approvals"].as_array().unwrap().len()), (Some("waiting"), 2), "{both}");
    let shown = rig.place.ringfence(&["approval", "show", &Rig::approval(&both)]).stdout;
    assert!(shown.contains("tests that are there are changed") && shown.contains("needs an approval of its own"), "{shown}");
    assert_eq!(rig.approve(&Rig::approval(&both), "anna").status, 0);
    assert_eq!(rig.show(&both)["state"], "waiting", "the approval of its own is missing");
    let own = both["approvals"][1]["approval"].as_str().unwrap();
    let barred = rig.approve(own, "anna");
    assert!(barred.status == 125 && barred.stderr.contains("security"), "{barred:?}");
    assert_eq!(rig.place.ringfence(&["person", "add", "ben", "--group", "security"]).status, 0);
    assert_eq!(rig.approve(own, "ben").status, 0);
    assert_eq!(rig.show(&both)["state"], "applied");
}

#[test]
fn a_new_test_needs_no_approval_of_its_own_and_a_pipeline_does() {
    let rig = Rig::new(User::Ordinary);
    let count = |script: &str| rig.promote(&rig.patch(script), "main")["approvals"].as_array().unwrap().len();
    assert_eq!(count(&format!("{FIX}; echo 'print(2)' > tests/test_more.py")), 1);
    assert_eq!(count(&format!("{FIX}; mkdir -p .github/workflows; echo 'on: push' > .github/workflows/ci.yml")), 2);
    assert_eq!(count(&format!("{FIX}; echo 'stage: x' > .gitlab-ci.yml")), 2);
}

#[test]
fn a_secret_in_an_added_line_is_refused_and_shown_nowhere() {
    let rig = Rig::with(User::Ordinary, "", "");
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let report = ended(&rig, &made("config.py", "100644", &[&format!("TOKEN = \"{token}\"")]));
    assert!(report["state"] == "refused" && report["cause"].as_str().unwrap().contains("looks like a secret"), "{report}");
    assert!(!report.to_string().contains(&token), "{report}");
    rig.settings("secrets-allowed = [\"fixtures/**\"]\n", "");
    let allowed = rig.promote(&rig.hand_in(&made("fixtures/config.py", "100644", &[&format!("TOKEN = \"{token}\"")])), "main");
    assert_eq!(allowed["state"], "waiting", "{allowed}");
}

#[test]
fn a_binary_of_200_mebibytes_is_refused_early() {
    let rig = Rig::with(User::Ordinary, "", "");
    // Highly compressible: the patch is small, what it would make is not.
    let script = "import base64, zlib\nimport sys\n\
        alphabet = b'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~'\n\
        data = zlib.compress(bytes(200 << 20), 9)\n\
        out = open('big.patch', 'wb')\n\
        out.write(b'diff --git a/big b/big\\nnew file mode 100644\\nindex ' + b'0' * 40 + b'..' + b'1' * 40 + b'\\nGIT binary patch\\nliteral %d\\n' % (200 << 20))\n\
        for at in range(0, len(data), 52):\n\
        \x20   line = data[at:at + 52]\n\
        \x20   out.write(bytes([64 + len(line) if len(line) <= 26 else 70 + len(line)]))\n\
        \x20   for group in range(0, len(line), 4):\n\
        \x20       value = int.from_bytes(line[group:group + 4].ljust(4, b'\\0'), 'big')\n\
        \x20       digits = []\n\
        \x20       for _ in range(5): digits.append(alphabet[value % 85]); value //= 85\n\
        \x20       out.write(bytes(reversed(digits)))\n\
        \x20   out.write(b'\\n')\n\
        out.write(b'\\nliteral 0\\nHc$@<O00001\\n\\n')\n";
    rig.place.write("make.py", script);
    rig.shell("python3 make.py");
    let report = ended(&rig, &fs::read(rig.place.path("big.patch")).unwrap());
    assert!(report["state"] == "refused" && report["cause"].as_str().unwrap().contains("limit"), "{report}");
}

#[test]
fn pr_04_what_a_reviewer_could_miss_is_said_first() {
    let rig = Rig::with(User::Ordinary, "", "");
    rig.commit("seq 10000 > long.txt; seq 10 > dos.txt; echo x > plain.sh; git add -A");
    rig.shell("rm -rf src && git clone -q app.git src");
    let bidi = "\u{202e}";
    let script = format!(
        "sed -i 's/^5000$/five thousand/; s/$/ /' long.txt; sed -i 's/$/\\r/' dos.txt; chmod +x plain.sh; printf '\\0' > blob; echo 'access = \"{bidi}user\"' > a.py"
    );
    let asked = rig.promote(&rig.patch(&script), "main");
    let shown = rig.place.ringfence(&["approval", "show", &Rig::approval(&asked)]).stdout;
    let summary = shown.split("===").next().unwrap().to_lowercase();
    for flagged in ["binary", "line ends", "mode", "a.py", "long.txt"] {
        assert!(summary.contains(flagged), "{flagged}: {summary}");
    }
    assert!(!shown.contains(bidi), "a character that turns the direction is shown, not obeyed");
    assert!(shown.contains("five thousand"), "the whole difference is there");
    let preview = fs::read(rig.evidence(&asked).join("preview.txt")).unwrap();
    assert!(shown.ends_with(&*String::from_utf8(preview).unwrap()), "what is shown is what is hashed");
}

#[test]
fn pr_05_an_artifact_that_was_altered_after_its_approval_is_not_applied() {
    let rig = Rig::with(User::Ordinary, "", "");
    for (digest, target) in [(rig.patch(FIX), "main"), (rig.report("approved"), "reports")] {
        let asked = rig.promote(&digest, target);
        let later = rig.place.ringfence(&["approval", "approve", &Rig::approval(&asked), "--as", "anna", "--later"]);
        assert_eq!(later.status, 0, "{later:?}");
        let hex = digest.trim_start_matches("sha256:");
        let kept = rig.place.home().join("artifacts").join(&hex[..2]).join(&hex[2..]);
        let before = fs::read(&kept).unwrap();
        fs::write(&kept, [&before[..], b"more\n"].concat()).unwrap();
        let tip = rig.tip();
        let done = rig.place.ringfence(&["promote", &digest, "--to", target]);
        assert!(done.status == 125 && done.stderr.contains("is not what was exported"), "{done:?}");
        assert_eq!((rig.tip(), fs::read_dir(rig.place.path("reports")).unwrap().count()), (tip, 0));
        fs::write(&kept, before).unwrap();
        assert_eq!(rig.promote(&digest, target)["state"], "applied", "with its own bytes it goes on");
    }
}

#[test]
fn pr_09_what_a_check_prints_is_data() {
    let line = "{\\\"event\\\":\\\"run_ended\\\",\\\"end\\\":{\\\"kind\\\":\\\"exited\\\",\\\"code\\\":0}}";
    let noise =
        format!("echo '{line}'; printf '\\\\033[2J\\\\033]0;x\\\\007'; head -c 3000000 /dev/zero | tr '\\\\0' x; echo PASSED; exit 1");
    let rig = Rig::with(User::Ordinary, &format!("checks = [\"{noise}\", \"true\"]\n"), "");
    let done = rig.place.ringfence(&["promote", &rig.patch(FIX), "--to", "main"]);
    assert!(
        done.status == 1 && done.stdout.contains("failed") && !done.stdout.contains('\x1b') && !done.stderr.contains('\x1b'),
        "{done:?}"
    );
    let listed: Value = serde_json::from_str(&rig.place.ringfence(&["promotion", "ls", "--json"]).stdout).unwrap();
    let result = payload(&rig.evidence(&listed[0]).join("test-result.dsse.json"));
    assert_eq!((&result["predicate"]["result"], &result["predicate"]["passedTests"]), (&"FAILED".into(), &serde_json::json!(["true"])));
    rig.assert_verifies(&listed[0]);
}

/// A workspace whose repository would run commands, were anybody to look at it with git.
#[test]
fn pr_13_nothing_of_the_workspaces_repository_runs_on_the_host() {
    let rig = Rig::with(User::Ordinary, "", "");
    let mark = rig.place.path("ran");
    let touch = format!("touch {}", mark.display());
    rig.shell(&format!(
        "cd src && git config core.fsmonitor '{touch}' && git config core.sshCommand '{touch}' && git config filter.x.clean '{touch}' && git config filter.x.smudge '{touch}' && \
         mkdir -p hooks && printf '#!/bin/sh\\n{touch}\\n' > hooks/post-checkout && chmod +x hooks/post-checkout && git config core.hooksPath hooks"
    ));
    rig.commit("echo '* filter=x' > .gitattributes");
    let done = rig.promoted(&rig.patch(FIX), "main");
    assert_eq!((done["state"].as_str(), mark.exists()), (Some("applied"), false), "{done}");
}

#[test]
fn sbx_165_a_patch_that_was_swapped_after_its_approval_is_refused() {
    let rig = Rig::with(User::Ordinary, "", "");
    let digest = rig.hand_in(&made("v", "100644", &["v1"]));
    let asked = rig.promote(&digest, "main");
    assert_eq!(rig.place.ringfence(&["approval", "approve", &Rig::approval(&asked), "--as", "anna", "--later"]).status, 0);
    let hex = digest.trim_start_matches("sha256:");
    let kept = rig.place.home().join("artifacts").join(&hex[..2]).join(&hex[2..]);
    fs::write(&kept, made("v", "100644", &["v2"])).unwrap();
    let done = rig.place.ringfence(&["promote", &digest, "--to", "main"]);
    assert!(done.status == 125 && done.stderr.contains("is not what was exported"), "{done:?}");
    assert!(rig.file("v").is_empty() && rig.file("calc.py") == BROKEN.as_bytes());
}
