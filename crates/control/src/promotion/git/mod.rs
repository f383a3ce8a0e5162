//! A branch of a repository as a place of promotion: a bare repository of our own, the tip of the branch, the tree that edits make of it, one
//! commit, and a push that succeeds only on exactly that tip.
//!
//! The commit is the same however often it is made (its time and names are on record), so that whoever comes after a crash can ask the
//! repository whether it is there.

mod command;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use ringfence_isolation::OsText;
use ringfence_patch::{ApplyFault, Edit, Patch};

use super::destination::Landed;
use super::error::{PromotionError, Unfit};
use command::Git;
use tree::{Blobs, TreeBase};
pub(super) use tree::{Entries, TreeEntry};

/// The tip of the branch when it was looked at.
#[derive(Debug, Clone)]
pub(super) struct GitBase {
    pub(super) commit: String,
    pub(super) tree: String,
    pub(super) entries: Entries,
}

/// Who made a commit, when, and why.
#[derive(Debug, Clone)]
pub(super) struct CommitText<'a> {
    pub(super) author: &'a str,
    pub(super) message: &'a str,
    /// Named in the message, so that whoever reads the history finds the evidence.
    pub(super) promotion: &'a str,
    /// Seconds since 1970.
    pub(super) at: i64,
}

/// What a repository said of a push.
#[derive(Debug)]
pub(super) enum Pushed {
    /// It took it.
    Taken,
    /// It did not, and will not.
    Refused(String),
    /// Nobody knows: the answer was lost, or somebody else was at the branch.
    Unknown(String),
}

/// A branch, and our own repository beside it.
#[derive(Debug)]
pub(super) struct GitPlace<'a> {
    git: Git,
    repository: &'a str,
    branch: &'a str,
}

impl<'a> GitPlace<'a> {
    /// A fresh bare repository in `work`, of the kind that the branch has.
    pub(super) fn open(
        work: &Path,
        repository: &'a str,
        branch: &'a str,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, PromotionError> {
        let folder = work.join("repository.git");
        let place = Self { git: Git::at(folder.clone(), environment), repository, branch };
        let format = if place.tip()?.len() == 64 { "sha256" } else { "sha1" };
        match std::fs::remove_dir_all(&folder) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(PromotionError::File { act: "remove", path: folder, source });
            }
            Ok(()) | Err(_) => {}
        }
        place.git.run(&["init", "--quiet", "--bare", &format!("--object-format={format}"), "--template="], b"", &[])?;
        Ok(place)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Where the branch is now.
    pub(super) fn tip(&self) -> Result<String, PromotionError> {
        let reference = self.reference();
        let listed = self.git.ask(&["ls-remote", "--quiet", "--", self.repository, &reference])?;
        if !listed.status.success() {
            return Err(self.unreachable(listed.said()));
        }
        let text = String::from_utf8_lossy(&listed.stdout);
        let named = text.lines().find_map(|line| line.split_once('\t').filter(|(_, name)| *name == reference));
        let missing = || PromotionError::NoBranch { repository: self.repository.to_owned(), branch: self.branch.to_owned() };
        named.map(|(id, _)| id.to_owned()).ok_or_else(missing)
    }

    /// Fetches the tip of the branch.
    pub(super) fn fetch(&self) -> Result<GitBase, PromotionError> {
        self.must_be_free()?;
        self.fetch_with(&["--depth=1"])?;
        self.base_at("refs/ringfence/base")
    }

    /// A branch that somebody works on takes no push, which git says only once it is pushed to: said here before anybody is asked.
    fn must_be_free(&self) -> Result<(), PromotionError> {
        let folder = Path::new(self.repository.strip_prefix("file://").unwrap_or(self.repository)).join(".git");
        let head = std::fs::read_to_string(folder.join("HEAD")).unwrap_or_default();
        if head.trim() != format!("ref: {}", self.reference()) {
            return Ok(());
        }
        let settings = folder.join("config");
        let asked = ["config", "--file", &settings.to_string_lossy(), "--get", "receive.denyCurrentBranch"];
        let answer = String::from_utf8_lossy(&self.git.try_run(&asked, b"", &[])?.stdout).trim().to_ascii_lowercase();
        match ["ignore", "warn", "false", "updateinstead"].contains(&answer.as_str()) {
            true => Ok(()),
            false => Err(PromotionError::NotTaken {
                rule: format!(
                    "branch `{}` is checked out in `{}`, and git lets nobody push to what somebody works on",
                    self.branch, self.repository
                ),
                hint: format!(
                    "name a bare repository, check out another branch there, or allow it: git -C '{}' config receive.denyCurrentBranch updateInstead",
                    self.repository
                ),
            }),
        }
    }

    /// Fetches the branch with all that led to it.
    pub(super) fn fetch_history(&self) -> Result<(), PromotionError> {
        // What was fetched alone has no history until it is asked for.
        let more: &[&str] = if self.git.folder().join("shallow").exists() { &["--unshallow"] } else { &[] };
        self.fetch_with(more)
    }

    fn fetch_with(&self, more: &[&str]) -> Result<(), PromotionError> {
        let refspec = format!("+{}:refs/ringfence/base", self.reference());
        let fixed = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        let arguments: Vec<&str> = fixed.iter().chain(more).chain(&["--", self.repository, &refspec]).copied().collect();
        let fetched = self.git.try_run(&arguments, b"", &[])?;
        match fetched.status.success() {
            true => Ok(()),
            false => Err(self.unreachable(fetched.said())),
        }
    }

    /// The tree of a commit that is here.
    pub(super) fn base_at(&self, commit: &str) -> Result<GitBase, PromotionError> {
        let commit = self.git.word(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")], b"", &[])?;
        let tree = self.git.word(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")], b"", &[])?;
        let entries = self.git.entries(&tree)?;
        match entries.keys().find(|path| !is_plain(path)) {
            None => Ok(GitBase { commit, tree, entries }),
            Some(path) => Err(PromotionError::Git {
                act: "ls-tree".into(),
                cause: format!("the branch has a path that no file can have: `{}`", path.escape_ascii()),
            }),
        }
    }

    /// What a patch makes of the base.
    pub(super) fn edits(&self, base: &GitBase, patch: &Patch) -> Result<Vec<Edit>, PromotionError> {
        let tree = TreeBase { entries: &base.entries, blobs: Mutex::new(self.git.blobs()?) };
        patch.apply(&tree).map_err(|error| match error.fault {
            // That a file cannot be read says nothing of the patch.
            ApplyFault::Read(..) => PromotionError::Git { act: "cat-file".into(), cause: error.to_string() },
            _ => PromotionError::Unfit(Unfit::Apply(error)),
        })
    }

    /// The tree and the commit that edits make of the base.
    pub(super) fn commit(&self, base: &GitBase, edits: &[Edit], text: &CommitText<'_>) -> Result<(String, String), PromotionError> {
        let tree = self.git.write_tree(&base.tree, &base.entries, edits)?;
        let date = format!("{} +0000", text.at);
        let who = [
            ("GIT_AUTHOR_NAME", text.author),
            ("GIT_AUTHOR_EMAIL", "agent@ringfence.invalid"),
            ("GIT_AUTHOR_DATE", &date),
            ("GIT_COMMITTER_NAME", "ringfence"),
            ("GIT_COMMITTER_EMAIL", "promotion@ringfence.invalid"),
            ("GIT_COMMITTER_DATE", &date),
        ];
        let message = format!("{}\n\nRingfence-Promotion: {}\n", text.message.trim_end(), text.promotion);
        let commit = self.git.word(&["commit-tree", &tree, "-p", &base.commit, "-F", "-"], message.as_bytes(), &who)?;
        Ok((tree, commit))
    }

    /// Pushes the commit onto exactly the base. Whether it is there is asked with [`landed`](Self::landed).
    pub(super) fn push(&self, base: &str, commit: &str) -> Result<Pushed, PromotionError> {
        self.push_with(&[], base, commit)
    }

    /// Asks the repository whether it would take the push, as far as it says so ahead: whoever may not push hears of it before anything is used up.
    pub(super) fn rehearse_push(&self, base: &str, commit: &str) -> Result<(), PromotionError> {
        match self.push_with(&["--dry-run"], base, commit)? {
            // A branch that has moved is seen when it is looked at.
            Pushed::Taken | Pushed::Refused(_) => Ok(()),
            Pushed::Unknown(cause) if self.tip()? == base => Err(self.unreachable(cause)),
            Pushed::Unknown(_) => Ok(()),
        }
    }

    fn push_with(&self, more: &[&str], base: &str, commit: &str) -> Result<Pushed, PromotionError> {
        let reference = self.reference();
        let lease = format!("--force-with-lease={reference}:{base}");
        let refspec = format!("{commit}:{reference}");
        let fixed = ["push", "--porcelain", "--no-verify", "--recurse-submodules=no", lease.as_str()];
        let last = ["--", self.repository, refspec.as_str()];
        let arguments: Vec<&str> = fixed.iter().chain(more).chain(&last).copied().collect();
        let pushed = self.git.try_run(&arguments, b"", &[])?;
        Ok(match (pushed.status.success(), refusal(&pushed.stdout)) {
            (true, _) => Pushed::Taken,
            (false, Some(reason)) => Pushed::Refused(format!("{reason}; {}", pushed.said())),
            (false, None) => Pushed::Unknown(pushed.said()),
        })
    }

    /// That the repository did not answer.
    pub(super) fn unreachable(&self, cause: String) -> PromotionError {
        PromotionError::Unreachable { repository: self.repository.to_owned(), cause }
    }

    /// Asks the repository whether a commit is in the branch.
    pub(super) fn landed(&self, base: &str, commit: &str) -> Result<Landed, PromotionError> {
        let tip = self.tip()?;
        if tip == commit {
            return Ok(Landed::Yes);
        }
        if tip == base {
            return Ok(Landed::No);
        }
        self.fetch_history()?;
        let asked = self.git.try_run(&["merge-base", "--is-ancestor", commit, "refs/ringfence/base"], b"", &[])?;
        Ok(if asked.status.success() { Landed::Yes } else { Landed::Moved })
    }

    /// A reader of the blobs that were fetched.
    pub(super) fn blobs(&self) -> Result<Blobs, PromotionError> {
        self.git.blobs()
    }
}

/// Why a repository will not take a push, if it said so itself. That the branch was locked says only that another push is under way.
fn refusal(porcelain: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(porcelain);
    let line = text.lines().find(|line| line.starts_with('!') && line.contains("[remote rejected]"))?;
    let reason = line.rsplit('\t').next().unwrap_or(line);
    const UNDER_WAY: &[&str] = &["cannot lock ref", "failed to update ref", "failed to lock", "unable to lock"];
    (!UNDER_WAY.iter().any(|words| reason.contains(words))).then(|| OsText::from(reason).to_string())
}

/// A tree can be made by hand; such a one must not write elsewhere when it is laid out for checks.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .all(|part| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0) && !ringfence_patch::is_git(part))
}
