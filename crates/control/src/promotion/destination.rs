//! What the two kinds of places have in common: looked at, changed on paper, laid out for checks, changed in truth once, and asked whether they were.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use ringfence_evidence::Digest;
use ringfence_patch::{Blob, Edit, Limits, Mode, Patch, plain_or_quoted};
use ringfence_policy::{Place, Target};

use super::directory::{self, DirectoryPlace, Seen};
use super::document::{Asked, Content};
use super::error::{PromotionError, Unfit};
use super::git::{CommitText, GitBase, GitPlace, Pushed};
use super::layout;

/// A place, opened.
#[derive(Debug)]
pub(super) enum Destination<'a> {
    Git(GitPlace<'a>),
    Directory(DirectoryPlace),
}

/// What a place held when it was looked at.
#[derive(Debug)]
pub(super) enum Base {
    Git(GitBase),
    File(Option<Seen>),
}

/// Whether a change is in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landed {
    /// It is.
    Yes,
    /// It is not, and the place is as it was looked at.
    No,
    /// It is not, and the place is elsewhere.
    Moved,
}

impl<'a> Destination<'a> {
    /// Opens the place; what it needs of its own goes to `work`.
    pub(super) fn open(asked: &'a Asked, work: &Path, environment: &BTreeMap<String, String>) -> Result<Self, PromotionError> {
        match &asked.target.place {
            Place::Git { repository, branch } => GitPlace::open(work, repository, branch, environment).map(Self::Git),
            Place::Directory { folder } => {
                DirectoryPlace::open(folder, &directory::name_of(&asked.what.path)?, &asked.promotion).map(Self::Directory)
            }
        }
    }

    /// Looks at what is there now.
    pub(super) fn look(&self, target: &Target) -> Result<Base, PromotionError> {
        match self {
            Self::Git(place) => place.fetch().map(Base::Git),
            Self::Directory(place) => place.look(target.max_file_bytes).map(Base::File),
        }
    }

    /// What an artifact makes of it.
    pub(super) fn edits(&self, base: &Base, artifact: Vec<u8>, asked: &Asked) -> Result<Vec<Edit>, PromotionError> {
        match (self, base) {
            (Self::Git(place), Base::Git(base)) => {
                let limits = Limits { file_bytes: usize::try_from(asked.target.max_file_bytes).unwrap_or(usize::MAX), ..Limits::default() };
                let patch = Patch::parse(&artifact, &limits).map_err(|error| PromotionError::Unfit(Unfit::Patch(error)))?;
                place.edits(base, &patch)
            }
            (Self::Directory(_), Base::File(old)) => {
                let new = Some(Blob { mode: Mode::Plain, bytes: artifact });
                let old = old.as_ref().map(|seen| seen.blob.clone());
                Ok(vec![Edit { path: directory::name_of(&asked.what.path)?.into_bytes(), old, new }])
            }
            (Self::Git(_), Base::File(_)) | (Self::Directory(_), Base::Git(_)) => Err(mixed()),
        }
    }

    /// What it would hold with some edits. In a repository the objects are made, but nobody refers to them.
    pub(super) fn result(&self, base: &Base, edits: &[Edit], text: &CommitText<'_>) -> Result<Content, PromotionError> {
        match (self, base) {
            (Self::Git(place), Base::Git(base)) => {
                let (tree, commit) = place.commit(base, edits, text)?;
                Ok(Content::Git { commit, tree })
            }
            (Self::Directory(_), Base::File(old)) => {
                let edit = edits.first().ok_or_else(mixed)?;
                Ok(file_content(&edit.path, edit.new.as_ref(), old.as_ref().map_or(directory::NEW_MODE, |old| old.mode)))
            }
            (Self::Git(_), Base::File(_)) | (Self::Directory(_), Base::Git(_)) => Err(mixed()),
        }
    }

    /// Lays out in `folder` what it would hold, but the tests as they are in the base.
    pub(super) fn lay_out(&self, base: &Base, edits: &[Edit], target: &Target, folder: &Path) -> Result<(), PromotionError> {
        let laid = match (self, base) {
            (Self::Git(place), Base::Git(base)) => {
                let mut blobs = place.blobs()?;
                layout::tree(base, edits, target, folder, &mut |id| blobs.read(id))
            }
            (Self::Directory(_), Base::File(_)) => layout::files(edits, folder),
            (Self::Git(_), Base::File(_)) | (Self::Directory(_), Base::Git(_)) => return Err(mixed()),
        };
        laid.map_err(|source| match source.kind() {
            // What the edits make cannot stand as files here.
            ErrorKind::InvalidFilename | ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                PromotionError::Unfit(Unfit::Layout(source.to_string()))
            }
            _ => PromotionError::File { act: "lay out", path: folder.to_owned(), source },
        })
    }

    /// All that can be done before the approvals are used up, so that what fails here costs none.
    pub(super) fn make_ready(&self, base: &Base, result: &Content, edits: &[Edit]) -> Result<(), PromotionError> {
        match (self, base, result) {
            (Self::Git(place), Base::Git(base), Content::Git { commit, .. }) => place.rehearse_push(&base.commit, commit),
            (Self::Directory(place), Base::File(old), _) => place.make_ready(edits.first().ok_or_else(mixed)?, old.as_ref()),
            (Self::Git(_), ..) | (Self::Directory(_), ..) => Err(mixed()),
        }
    }

    /// Changes the place, if it is what was looked at. The answer is what the place itself says afterwards, beside what it said on refusing.
    pub(super) fn apply(&self, base: &Content, result: &Content, edits: &[Edit]) -> Result<(Landed, String), PromotionError> {
        match (self, base, result) {
            (Self::Git(place), Content::Git { commit: base, .. }, Content::Git { commit, .. }) => {
                let pushed = place.push(base, commit)?;
                match (place.landed(base, commit)?, pushed) {
                    // It may be on its way still: only the branch itself says, later.
                    (Landed::No, Pushed::Unknown(cause)) => Err(place.unreachable(cause)),
                    (landed, Pushed::Refused(said) | Pushed::Unknown(said)) => Ok((landed, said)),
                    (landed, Pushed::Taken) => Ok((landed, "git says that it did, but the branch is where it was".to_owned())),
                }
            }
            (Self::Directory(place), Content::File { .. }, Content::File { .. }) => place.apply(edits.first().ok_or_else(mixed)?),
            (Self::Git(_), ..) | (Self::Directory(_), ..) => Err(mixed()),
        }
    }

    /// Asks the place how far an attempt came that was cut short.
    pub(super) fn settle(&self, base: &Content, result: &Content, edits: &[Edit], target: &Target) -> Result<Landed, PromotionError> {
        match (self, base, result) {
            (Self::Git(place), Content::Git { commit: base, .. }, Content::Git { commit, .. }) => place.landed(base, commit),
            (Self::Directory(place), ..) => place.settle(edits.first().ok_or_else(mixed)?, target.max_file_bytes),
            (Self::Git(_), ..) => Err(mixed()),
        }
    }

    /// Takes away what a promotion that is over needed of its own in the place; nothing is there where the place is gone.
    pub(super) fn clear(asked: &Asked) -> Result<(), PromotionError> {
        let Place::Directory { folder } = &asked.target.place else { return Ok(()) };
        match DirectoryPlace::open(folder, &directory::name_of(&asked.what.path)?, &asked.promotion) {
            Err(PromotionError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
            place => place?.clear(),
        }
    }
}

impl Base {
    /// A path that would be made although the base has one that differs from it in the case of letters alone: on some file systems they are one.
    pub(super) fn collision(&self, edits: &[Edit]) -> Option<String> {
        let Self::Git(base) = self else { return None };
        let added: Vec<&Edit> = edits.iter().filter(|edit| edit.old.is_none()).collect();
        if added.is_empty() {
            return None;
        }
        let gone: BTreeSet<&[u8]> = edits.iter().filter(|edit| edit.new.is_none()).map(|edit| edit.path.as_slice()).collect();
        let there = base.entries.keys().filter(|path| !gone.contains(path.as_slice())).flat_map(|path| prefixes(path));
        let folded: BTreeMap<Vec<u8>, &[u8]> = there.map(|path| (path.to_ascii_lowercase(), path)).collect();
        let collides = |path: &[u8]| folded.get(&path.to_ascii_lowercase()).filter(|found| **found != path).copied();
        added.iter().flat_map(|edit| prefixes(&edit.path)).find_map(|path| {
            let found = collides(path)?;
            Some(format!("{} differs from {} in the case of letters alone", plain_or_quoted(path), plain_or_quoted(found)))
        })
    }

    /// What was looked at, in the words of the record.
    pub(super) fn content(&self, edits: &[Edit]) -> Content {
        match self {
            Self::Git(base) => Content::Git { commit: base.commit.clone(), tree: base.tree.clone() },
            Self::File(old) => {
                let name = edits.first().map_or(b"".as_slice(), |edit| edit.path.as_slice());
                file_content(name, old.as_ref().map(|old| &old.blob), old.as_ref().map_or(0, |old| old.mode))
            }
        }
    }
}

/// A path, and each folder that leads to it.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    folders.chain([path])
}

fn file_content(name: &[u8], blob: Option<&Blob>, mode: u32) -> Content {
    Content::File {
        name: String::from_utf8_lossy(name).into_owned(),
        sha256: blob.map(|blob| Digest::of(&blob.bytes)),
        mode: blob.map(|_| format!("{mode:04o}")),
    }
}

/// The documents of one promotion name two kinds of places, which nothing of ours writes.
fn mixed() -> PromotionError {
    PromotionError::NotTaken {
        rule: "what is on record is of another kind of place than the target".into(),
        hint: "ask for the promotion anew".into(),
    }
}
