//! Export: the one way out of the workspace. Only what was named, regular files only, opened beneath the workspace's descriptor after every process is
//! dead; limits are checked before a byte is read.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};

use ringfence_policy::Glob;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::beneath;
use crate::text::OsText;

/// Folders below folders that are still looked into.
const DEPTH: usize = 256;

/// The most that may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportLimits {
    /// Number of artifacts.
    pub artifacts: u64,
    /// Bytes of all together.
    pub bytes: u64,
}

/// Where artifacts go; hashes while it copies.
pub trait ArtifactSink {
    /// Takes one artifact to its end.
    fn store(&mut self, content: &mut dyn Read) -> io::Result<Stored>;
}

/// What the sink took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// An artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its path in the workspace.
    pub path: OsText,
    /// Whether it was executable there. (Every other bit of its mode is dropped.)
    pub is_executable: bool,
    /// What was stored.
    pub stored: Stored,
}

/// Something that was named and did not leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRefusal {
    /// Its path, or the glob that named it.
    pub path: OsText,
    /// Why.
    pub reason: String,
}

/// What left and what did not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Export {
    /// Artifacts.
    pub artifacts: Vec<Exported>,
    /// Refusals.
    pub refusals: Vec<ExportRefusal>,
}

struct Candidate {
    path: Vec<u8>,
    bytes: u64,
    is_executable: bool,
}

/// Collects what the globs name.
pub fn collect(workspace: BorrowedFd<'_>, globs: &[Glob], limits: ExportLimits, sink: &mut dyn ArtifactSink) -> Export {
    let globs = &distinct(globs);
    let mut export = Export::default();
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut is_matched = vec![false; globs.len()];
    let walked = walk(workspace, globs, &mut |path, kind| {
        let hits: Vec<usize> = (0..globs.len()).filter(|i| globs[*i].matches(path)).collect();
        hits.iter().for_each(|i| is_matched[*i] = true);
        if !hits.is_empty() {
            match judge(workspace, path, kind, hits.iter().any(|i| globs[*i].is_literal()), limits.bytes) {
                Ok(Some(candidate)) => candidates.push(candidate),
                Ok(None) => {}
                Err(reason) => export.refusals.push(ExportRefusal { path: path.into(), reason }),
            }
        }
    });
    for (path, _) in &walked {
        globs.iter().zip(&mut is_matched).filter(|(glob, _)| glob.as_str().as_bytes() == path).for_each(|(_, matched)| *matched = true);
    }
    export.refusals.extend(walked.into_iter().map(|(path, reason)| ExportRefusal { path: path.as_slice().into(), reason }));
    for (glob, _) in globs.iter().zip(&is_matched).filter(|(_, matched)| !**matched) {
        export.refusals.push(ExportRefusal { path: glob.as_str().into(), reason: "was not written by the run".into() });
    }
    match broken_total(&candidates, limits) {
        Some(reason) => export.refusals.push(ExportRefusal { path: "**".into(), reason }),
        None => candidates.iter().for_each(|candidate| take(workspace, candidate, sink, &mut export)),
    }
    export
}

/// What was asked for twice is answered once.
fn distinct(globs: &[Glob]) -> Vec<Glob> {
    let is_first = |(place, glob): &(usize, &Glob)| !globs[..*place].contains(glob);
    globs.iter().enumerate().filter(is_first).map(|(_, glob)| glob.clone()).collect()
}

/// A broken total refuses everything: a part of a set of results is not the set.
fn broken_total(candidates: &[Candidate], limits: ExportLimits) -> Option<String> {
    let total: u64 = candidates.iter().map(|c| c.bytes).fold(0, u64::saturating_add);
    if candidates.len() as u64 > limits.artifacts {
        return Some(format!("nothing was exported: {} artifacts are more than the limit of {}", candidates.len(), limits.artifacts));
    }
    (total > limits.bytes).then(|| format!("nothing was exported: {total} bytes of artifacts are more than the limit of {}", limits.bytes))
}

/// Decides on one entry that a glob names. A folder is only refused where it was named itself: `**` names what is in it.
fn judge(workspace: BorrowedFd<'_>, path: &[u8], kind: FileType, is_named: bool, most: u64) -> Result<Option<Candidate>, String> {
    match kind {
        FileType::Directory if is_named => Err("is a folder; name what is in it, such as `folder/**`".into()),
        FileType::Directory => Ok(None),
        FileType::Symlink => Err("is a symbolic link; exports are regular files only".into()),
        FileType::RegularFile => {
            let status = beneath::stat(workspace, path).map_err(|errno| format!("cannot be read: {errno}"))?;
            let bytes = status.st_size as u64;
            match bytes <= most {
                true => Ok(Some(Candidate { path: path.to_vec(), bytes, is_executable: status.st_mode & 0o100 != 0 })),
                false => Err(format!("is {bytes} bytes long, more than the limit of {most}")),
            }
        }
        _ => Err("is a socket, pipe or device; exports are regular files only".into()),
    }
}

fn take(workspace: BorrowedFd<'_>, candidate: &Candidate, sink: &mut dyn ArtifactSink, export: &mut Export) {
    let path = OsText::from(candidate.path.as_slice());
    let stored = beneath::open(workspace, &candidate.path, OFlags::RDONLY)
        .map_err(io::Error::from)
        .and_then(|file| sink.store(&mut File::from(file).take(candidate.bytes + 1)));
    match stored {
        Ok(stored) if stored.bytes == candidate.bytes => {
            export.artifacts.push(Exported { path, is_executable: candidate.is_executable, stored });
        }
        Ok(_) => export.refusals.push(ExportRefusal { path, reason: "changed while it was copied".into() }),
        Err(error) => export.refusals.push(ExportRefusal { path, reason: format!("cannot be read: {error}") }),
    }
}

/// Visits every entry that the globs could name. What cannot be looked into is answered with the reason.
fn walk(workspace: BorrowedFd<'_>, globs: &[Glob], visit: &mut dyn FnMut(&[u8], FileType)) -> Vec<(Vec<u8>, String)> {
    let mut refused = Vec::new();
    for glob in globs.iter().filter(|g| g.is_literal()) {
        let path = glob.as_str().as_bytes();
        match beneath::stat(workspace, path) {
            Ok(status) => visit(path, FileType::from_raw_mode(status.st_mode)),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                refused.push((path.to_vec(), "stands below a symbolic link or a file; exports are regular files only".into()))
            }
            Err(_) => {}
        }
    }
    let wild: Vec<&Glob> = globs.iter().filter(|g| !g.is_literal()).collect();
    if !wild.is_empty() {
        let is_literal = |path: &[u8]| globs.iter().any(|g| g.is_literal() && g.matches(path));
        let mut visit_once = |path: &[u8], kind: FileType| {
            if !is_literal(path) {
                visit(path, kind)
            }
        };
        walk_folder(workspace, Vec::new(), 0, &wild, &mut visit_once, &mut refused);
    }
    refused
}

fn walk_folder(
    root: BorrowedFd<'_>,
    folder: Vec<u8>,
    depth: usize,
    wild: &[&Glob],
    visit: &mut dyn FnMut(&[u8], FileType),
    refused: &mut Vec<(Vec<u8>, String)>,
) {
    let listed =
        open_folder(root, &folder, depth).and_then(|open| beneath::list(&open).map_err(|errno| format!("cannot be read: {errno}")));
    match listed {
        Err(reason) => refused.push((folder, reason)),
        Ok(entries) => {
            for (name, kind) in entries {
                let path = beneath::join(&folder, &name);
                visit(&path, kind);
                if kind == FileType::Directory && wild.iter().any(|glob| may_hold(glob, &path)) {
                    walk_folder(root, path, depth + 1, wild, visit, refused);
                }
            }
        }
    }
}

/// Whether a glob could name something below a folder: what of it stands above any `**` must match the folder, part by part.
fn may_hold(glob: &Glob, folder: &[u8]) -> bool {
    let parts: Vec<&str> = glob.as_str().split('/').collect();
    let above: Vec<&[u8]> = folder.split(|byte| *byte == b'/').collect();
    let fixed = parts.iter().position(|part| *part == "**");
    let shared = fixed.unwrap_or(parts.len() - 1).min(above.len());
    let matches = |(part, name): (&&str, &&[u8])| part.parse::<Glob>().is_ok_and(|part| part.matches(name));
    (fixed.is_some() || above.len() <= shared) && parts.iter().zip(&above).take(shared).all(matches)
}

fn open_folder(root: BorrowedFd<'_>, folder: &[u8], depth: usize) -> Result<OwnedFd, String> {
    if depth > DEPTH || folder.len() > 4000 {
        return Err(format!("is more than {DEPTH} folders or 4000 bytes deep"));
    }
    beneath::open(root, folder, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|errno| format!("cannot be read: {errno}"))
}
