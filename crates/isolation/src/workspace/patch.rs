//! `changes.patch`: what a run changed in a project's view, in git's own format, so that `git apply` makes the same tree byte for byte.
//!
//! The first line, which git skips, says what a reviewer must not miss: links, mode changes, files that start programs, and what was left out.
//! Left out are `.git`, what the base's ignore rules ignore, and files that stand where something was hidden. No rename detection: a
//! rename is a removal and an addition, which nothing can misread.

mod changes;
mod ignores;
mod summary;

pub use summary::PatchSummary;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_patch::{Kind, Side, is_git, is_modules, write};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::GoOn;
use super::beneath::{self, Entry};
use crate::text::OsText;
use ignores::Ignores;

/// What a patch is made from.
#[derive(Debug)]
pub struct PatchRequest<'a> {
    /// The project on the host (or its private copy).
    pub base: &'a Path,
    /// The workspace.
    pub workspace: BorrowedFd<'a>,
    /// The changes, where the view is a union; otherwise both trees are compared in full.
    pub changes: Option<BorrowedFd<'a>>,
    /// What was hidden from the view.
    pub hidden: &'a [OsText],
    /// Files that were shown in another form.
    pub replaced: &'a [(OsText, String)],
    /// A changed file may be at most this long, and the patch at most twice that, bytes.
    pub most_bytes: u64,
    /// A file of the base that changed after this moment is not the one that the run saw.
    pub since: Option<SystemTime>,
}

/// Writes the patch. `go_on` is told the bytes written after each path, and can end the work.
pub fn write_patch(request: &PatchRequest<'_>, go_on: &mut GoOn<'_>) -> io::Result<(Vec<u8>, PatchSummary)> {
    let base = open(request.base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let ignores = Ignores::of(request.base);
    let mut summary = PatchSummary::default();
    let mut body = Vec::new();
    for (path, looked_into) in changes::changed_paths(request, base.as_fd())? {
        go_on(body.len() as u64)?;
        let sides = looked_into.and_then(|()| side_by_side(request, base.as_fd(), &path));
        if is_same(request, base.as_fd(), &path, &sides) || is_left_out(request, &ignores, &path, &mut summary) {
            continue;
        }
        match judge(request, base.as_fd(), &path, sides) {
            Ok((old, new)) => {
                summary.note(&path, &old, &new);
                write(&path, side(&old), side(&new), &mut body)?;
            }
            Err(reason) => summary.refused.push((path.as_slice().into(), reason)),
        }
        // A change shows both sides; what is longer can only be refused, so it is not made.
        if body.len() as u64 > request.most_bytes.saturating_mul(2) {
            return Err(io::Error::other(format!("is longer than twice the limit of {} bytes", request.most_bytes)));
        }
    }
    let mut patch = summary.line().into_bytes();
    patch.extend(body);
    Ok((patch, summary))
}

/// True if the base's file was changed on the host after the run began: a patch against it would undo that change.
fn is_newer(request: &PatchRequest<'_>, base: BorrowedFd<'_>, path: &[u8]) -> bool {
    let changed = beneath::stat(base, path).ok().and_then(|status| {
        let since_epoch = Duration::new(u64::try_from(status.st_ctime).ok()?, u32::try_from(status.st_ctime_nsec).ok()?);
        UNIX_EPOCH.checked_add(since_epoch)
    });
    request.since.zip(changed).is_some_and(|(since, changed)| changed > since)
}

fn reason(errno: Errno, most: u64) -> String {
    match errno {
        Errno::FBIG => format!("is longer than the limit of {most} bytes"),
        errno => format!("cannot be read: {}", io::Error::from(errno)),
    }
}

/// Folders are not part of a patch.
fn side_by_side(request: &PatchRequest<'_>, base: BorrowedFd<'_>, path: &[u8]) -> Result<(Entry, Entry), Errno> {
    let plain = |entry| if entry == Entry::Folder { Entry::Missing } else { entry };
    let shown = request.replaced.iter().find(|(p, _)| p.as_bytes() == path);
    let old = match shown {
        Some((_, text)) => Entry::File { is_executable: false, bytes: text.clone().into_bytes() },
        None => beneath::read(base, path, request.most_bytes)?,
    };
    Ok((plain(old), plain(beneath::read(request.workspace, path, request.most_bytes)?)))
}

/// Whether nothing changed. Files that are too long for a patch are compared where they lie.
fn is_same(request: &PatchRequest<'_>, base: BorrowedFd<'_>, path: &[u8], sides: &Result<(Entry, Entry), Errno>) -> bool {
    match sides {
        Ok((old, new)) => old == new,
        Err(Errno::FBIG) => beneath::are_same(base, request.workspace, path).unwrap_or(false),
        Err(_) => false,
    }
}

/// Whether a change is left out for its name, whatever it is, noting that in the summary.
fn is_left_out(request: &PatchRequest<'_>, ignores: &Ignores, path: &[u8], summary: &mut PatchSummary) -> bool {
    if path.split(|b| *b == b'/').any(is_git) {
        summary.in_git += 1;
        return true;
    }
    if request.hidden.iter().any(|hidden| changes::is_within(path, hidden.as_bytes())) {
        summary.refused.push((path.into(), "stands where a file was hidden".into()));
        return true;
    }
    if ignores.ignore(path) {
        summary.ignored += 1;
        return true;
    }
    false
}

/// The two sides, if a patch can hold them and git takes it.
fn judge(
    request: &PatchRequest<'_>,
    base: BorrowedFd<'_>,
    path: &[u8],
    sides: Result<(Entry, Entry), Errno>,
) -> Result<(Entry, Entry), String> {
    let (old, new) = sides.map_err(|errno| reason(errno, request.most_bytes))?;
    if is_newer(request, base, path) {
        return Err("was changed on the host while the run went on".into());
    }
    let is_either = |wanted: fn(&Entry) -> bool| wanted(&old) || wanted(&new);
    if is_either(|entry| matches!(entry, Entry::Special)) {
        return Err("is a socket, pipe or device".into());
    }
    if is_modules(path) && is_either(|entry| matches!(entry, Entry::Link { .. })) {
        return Err("is a link where git takes only a file".into());
    }
    Ok((old, new))
}

/// An entry as the writer takes it.
fn side(entry: &Entry) -> Option<Side<'_>> {
    let file = |is_executable| Kind::File(if is_executable { ringfence_patch::Mode::Executable } else { ringfence_patch::Mode::Plain });
    match entry {
        Entry::File { is_executable, bytes } => Some(Side { kind: file(*is_executable), bytes }),
        Entry::Link { target } => Some(Side { kind: Kind::Link, bytes: target }),
        Entry::Missing | Entry::Folder | Entry::Special => None,
    }
}
