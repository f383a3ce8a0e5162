//! `--out`: copies artifacts to a folder of the caller's, never over a file that is there unless told to, and never through a link.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ringfence_control::{ArtifactReport, RefusalReport, RunReport};
use ringfence_evidence::Digest;
use ringfence_policy::Glob;
use ringfence_store::RunId;
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, open, openat2, renameat, unlinkat};
use rustix::io::Errno;

use crate::cli::out::Failure;

/// Before anything runs: a name that is taken is better known now.
pub(super) fn check(folder: &Path, exports: &[Glob], is_forced: bool) -> Result<(), Failure> {
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::new(format!("--out: `{}` is not a folder", folder.display()), "name a folder, which may be new"));
    }
    let taken = exports.iter().filter(|g| g.is_literal()).find(|g| folder.join(g.as_str()).symlink_metadata().is_ok());
    fs::create_dir_all(folder)
        .map_err(|e| Failure::new(format!("--out: `{}`: {e}", folder.display()), "name a folder that can be made"))?;
    match taken {
        Some(glob) if !is_forced => Err(Failure::new(
            format!("--out: `{}` is there already", folder.join(glob.as_str()).display()),
            "name another folder, or overwrite with --force",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Writes the bytes of an artifact to a file that was made for them.
pub(super) type Fetch<'a> = dyn Fn(&Digest, &mut File) -> io::Result<()> + 'a;

/// Copies every artifact; one that cannot be copied is a refusal, and stays in the store.
pub(super) fn copy(fetch: &Fetch<'_>, folder: &Path, is_forced: bool, report: &mut RunReport) -> Result<(), Failure> {
    if report.artifacts.is_empty() {
        return Ok(());
    }
    let cannot =
        |e: io::Error| Failure::new(format!("--out: `{}`: {e}", folder.display()), "the artifacts are kept: see `ringfence artifact ls`");
    fs::create_dir_all(folder).map_err(cannot)?;
    let root = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(|e| cannot(e.into()))?;
    for artifact in &report.artifacts {
        if let Err(error) = copy_one(fetch, &root, artifact, is_forced) {
            let reason = match error.kind() {
                io::ErrorKind::AlreadyExists => "is there already in the --out folder; overwrite with --force".into(),
                _ => format!("could not be copied to the --out folder: {error}"),
            };
            report.refusals.push(RefusalReport { path: artifact.path.clone(), reason });
        }
    }
    if report.exit_status == 0 && !report.refusals.is_empty() {
        report.exit_status = 123;
    }
    Ok(())
}

fn copy_one(fetch: &Fetch<'_>, root: &OwnedFd, artifact: &ArtifactReport, is_forced: bool) -> io::Result<()> {
    let digest = artifact.sha256.parse().map_err(io::Error::other)?;
    let (folder, name) = make_folders(root, artifact.name.as_bytes())?;
    let mode = Mode::from_raw_mode(if artifact.is_executable { 0o755 } else { 0o644 });
    let draft = format!(".ringfence-{}", RunId::new()?);
    let written =
        rustix::fs::openat(&folder, &draft, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
            .map_err(io::Error::from)
            .and_then(|file| fetch(&digest, &mut File::from(file)));
    let placed = written.and_then(|_| place(&folder, &draft, name, is_forced));
    if placed.is_err() {
        // The draft is ours; when it cannot be removed the error below still says what happened.
        unlinkat(&folder, &draft, rustix::fs::AtFlags::empty()).unwrap_or_default();
    }
    placed
}

/// Puts the draft in its place in one step: over what is there only if told to.
fn place(folder: &OwnedFd, draft: &str, name: &[u8], is_forced: bool) -> io::Result<()> {
    if is_forced {
        return Ok(renameat(folder, draft, folder, name)?);
    }
    Ok(rustix::fs::renameat_with(folder, draft, folder, name, rustix::fs::RenameFlags::NOREPLACE)?)
}

/// Makes the folders of a path beneath `root`; answers with the last one and the name in it.
fn make_folders<'p>(root: &OwnedFd, path: &'p [u8]) -> io::Result<(OwnedFd, &'p [u8])> {
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let name = parts.pop().unwrap_or_default();
    let mut at = root.try_clone()?;
    for part in parts {
        match mkdirat(&at, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        at = openat2(at.as_fd(), part, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    }
    Ok((at, name))
}
