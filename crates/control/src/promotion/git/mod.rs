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

use ringfence_patch::{Edit, Patch};

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
        let listed = self.git.try_run(&["ls-remote", "--quiet", "--", self.repository, &reference], b"", &[])?;
        if !listed.status.success() {
            return Err(PromotionError::Unreachable { repository: self.repository.to_owned(), cause: listed.said() });
        }
        let text = String::from_utf8_lossy(&listed.stdout);
        let named = text.lines().find_map(|line| line.split_once('\t').filter(|(_, name)| *name == reference));
        let missing = || PromotionError::NoBranch { repository: self.repository.to_owned(), branch: self.branch.to_owned() };
        named.map(|(id, _)| id.to_owned()).ok_or_else(missing)
    }

    /// Fetches the tip of the branch.
    pub(super) fn fetch(&self) -> Result<GitBase, PromotionError> {
        self.fetch_with(&["--depth=1"])?;
        self.base_at("refs/ringfence/base")
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
            false => Err(PromotionError::Unreachable { repository: self.repository.to_owned(), cause: fetched.said() }),
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
        patch.apply(&tree).map_err(|error| PromotionError::Unfit(Unfit::Apply(error)))
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

    /// Pushes the commit onto exactly the base. The answer is what the repository said where it refused; whether the commit is there is asked with
    /// [`landed`](Self::landed). A repository that did not answer is an error: nothing is known then.
    pub(super) fn push(&self, base: &str, commit: &str) -> Result<Option<String>, PromotionError> {
        let reference = self.reference();
        let lease = format!("--force-with-lease={reference}:{base}");
        let refspec = format!("{commit}:{reference}");
        let arguments = ["push", "--porcelain", "--no-verify", "--recurse-submodules=no", &lease, "--", self.repository, &refspec];
        let pushed = self.git.try_run(&arguments, b"", &[])?;
        let told = String::from_utf8_lossy(&pushed.stdout);
        let is_refused = told.lines().any(|line| line.starts_with('!'));
        match (pushed.status.success(), is_refused || self.tip()? == commit) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(pushed.said())),
            (false, false) => Err(PromotionError::Unreachable { repository: self.repository.to_owned(), cause: pushed.said() }),
        }
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

/// A tree can be made by hand; such a one must not write elsewhere when it is laid out for checks.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .all(|part| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0) && !ringfence_patch::is_git(part))
}
