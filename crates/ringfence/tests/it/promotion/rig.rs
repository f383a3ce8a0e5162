//! A repository with a branch to promote to, a folder beside it, and persons with keys.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{Outcome, Place, User, outcome};

/// A calculator whose total is wrong.
pub(crate) const BROKEN: &str = "def total(numbers):\n    return sum(numbers) + 1\n";
/// What tells it.
pub(crate) const TEST: &str = "import sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, '.')\nfrom calc import total\nassert total([1, 2]) == 3, total([1, 2])\nprint('as it should be')\n";
/// The command that mends it, as a model would write it.
pub(crate) const FIX: &str = "sed -i 's/ + 1//' calc.py";
/// The check of the branch.
pub(crate) const CHECK: &str = "python3 tests/test_calc.py";

/// A place with a repository `app.git`, a checkout `src`, a folder `reports` and a person with a key.
pub(crate) struct Rig {
    pub(crate) place: Place,
}

impl Rig {
    /// With targets `main`, which runs the check, and `reports`.
    pub(crate) fn new(user: User) -> Self {
        Self::with(user, &format!("checks = [\"{CHECK}\"]\n"), "")
    }

    /// With more lines for the two targets.
    pub(crate) fn with(user: User, main: &str, reports: &str) -> Self {
        let rig = Self { place: Place::new(user) };
        rig.place.write("src/calc.py", BROKEN);
        rig.place.write("src/tests/test_calc.py", TEST);
        rig.shell("cd src && git init -q -b main && git add -A && git commit -qm base && cd .. && git clone -q --bare src app.git");
        rig.place.folder("reports");
        rig.settings(main, reports);
        let added = rig.place.ringfence(&["person", "add", "anna", "--group", "maintainers"]);
        assert_eq!(added.status, 0, "{added:?}");
        rig
    }

    /// Writes the settings anew.
    pub(crate) fn settings(&self, main: &str, reports: &str) {
        assert_eq!(self.place.ringfence(&["profile", "ls"]).status, 0);
        let (repository, folder) = (self.place.path("app.git"), self.place.path("reports"));
        self.place.folder("home");
        self.place.write(
            "home/ringfence.toml",
            format!(
                "[targets.main]\nkind = \"git\"\nrepository = \"{}\"\nbranch = \"main\"\n{main}\n[targets.reports]\nkind = \"directory\"\nfolder = \"{}\"\n{reports}",
                repository.display(),
                folder.display()
            ),
        );
    }

    /// A shell on the host, as the user, with a name for git.
    pub(crate) fn shell(&self, script: &str) -> String {
        let done = self.try_shell(script);
        assert_eq!(done.status, 0, "{script}: {done:?}");
        done.stdout
    }

    pub(crate) fn try_shell(&self, script: &str) -> Outcome {
        let mut command = self.place.command("bash");
        command.args(["-c", script]).env("GIT_CONFIG_GLOBAL", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "tester").env(format!("GIT_{role}_EMAIL"), "tester@example.com");
        }
        outcome(command.output().unwrap())
    }

    /// Runs a script over the checkout and answers with the digest of the patch of its changes.
    pub(crate) fn patch(&self, script: &str) -> String {
        let script = format!("export PYTHONDONTWRITEBYTECODE=1; {script}");
        let options = ["--profile", "code-change", "--project", "src", "--export", "changes.patch"];
        self.artifact(&options, &script)
    }

    /// Runs a script that writes a report and answers with its digest.
    pub(crate) fn report(&self, text: &str) -> String {
        self.artifact(&["--export", "report.md"], &format!("printf '%s\\n' '{text}' > report.md"))
    }

    /// Hands in a patch as it is.
    pub(crate) fn hand_in(&self, patch: &[u8]) -> String {
        self.place.write("in.patch", patch);
        let options = ["--profile", "code-change", "--input", "in.patch", "--export", "out.patch"];
        self.artifact(&options, "cp /inputs/in.patch out.patch")
    }

    pub(crate) fn artifact(&self, options: &[&str], script: &str) -> String {
        let (report, status) = self.place.report(options, &["bash", "-c", script]);
        assert_eq!(status, 0, "{report}");
        report["artifacts"][0]["sha256"].as_str().unwrap().to_owned()
    }

    /// `ringfence promote DIGEST --to TARGET`, as it stands then.
    pub(crate) fn promote(&self, digest: &str, target: &str) -> Value {
        let done = self.place.ringfence(&["promote", digest, "--to", target, "--json"]);
        serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))
    }

    /// The approval that a promotion waits for, the first of them.
    pub(crate) fn approval(report: &Value) -> String {
        assert_eq!(report["state"], "waiting", "{report}");
        report["approvals"][0]["approval"].as_str().unwrap().to_owned()
    }

    pub(crate) fn approve(&self, approval: &str, person: &str) -> Outcome {
        self.place.ringfence(&["approval", "approve", approval, "--as", person])
    }

    /// How a promotion stands.
    pub(crate) fn show(&self, report: &Value) -> Value {
        let done = self.place.ringfence(&["promotion", "show", report["promotion"].as_str().unwrap(), "--json"]);
        serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))
    }

    /// The folder of a promotion's evidence.
    pub(crate) fn evidence(&self, report: &Value) -> PathBuf {
        self.place.home().join("promotions").join(report["promotion"].as_str().unwrap())
    }

    /// The branch's tip.
    pub(crate) fn tip(&self) -> String {
        self.shell("git -C app.git rev-parse main").trim().to_owned()
    }

    /// A file of the branch.
    pub(crate) fn file(&self, path: &str) -> Vec<u8> {
        let mut command = self.place.command("git");
        command.args(["-C", "app.git", "cat-file", "blob", &format!("main:{path}")]);
        command.output().unwrap().stdout
    }

    /// Commits on the branch by hand.
    pub(crate) fn commit(&self, script: &str) -> String {
        self.shell(&format!(
            "rm -rf other && git clone -q app.git other && cd other && {script} && git add -A && git commit -qm other && git push -q"
        ));
        self.tip()
    }

    /// Asks, has it approved by one person and answers with how it stands then.
    pub(crate) fn promoted(&self, digest: &str, target: &str) -> Value {
        let asked = self.promote(digest, target);
        let approved = self.approve(&Self::approval(&asked), "anna");
        assert_eq!(approved.status, 0, "{approved:?}");
        self.show(&asked)
    }

    /// The record of a promotion holds.
    pub(crate) fn assert_verifies(&self, report: &Value) {
        let verified = self.place.ringfence(&["evidence", "verify", report["promotion"].as_str().unwrap()]);
        assert_eq!(verified.status, 0, "{verified:?}");
    }
}

/// A python with the public tools of evidence, which `make test` sets up.
pub(crate) fn python() -> Command {
    Command::new(format!("{}/../../target/test-tools/bin/python", env!("CARGO_MANIFEST_DIR")))
}

/// The payload of an envelope.
pub(crate) fn payload(envelope: &std::path::Path) -> Value {
    use base64::Engine;
    let envelope: Value = serde_json::from_slice(&fs::read(envelope).unwrap()).unwrap();
    let payload = base64::engine::general_purpose::STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}
