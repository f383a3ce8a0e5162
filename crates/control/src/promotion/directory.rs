//! A folder as a place of promotion: one file, put in place in one step, and only over exactly the one that was looked at. The old version is kept.
//!
//! The new file waits beside the old one under a name of the promotion's own and changes places with it. What comes out must be what was looked at,
//! else they change back. Whoever comes after a crash sees by the two files how far it came.
//!
//! INVARIANT (whole draft): under the draft's name is a whole file or none. It is written under another name, and goes only once the promotion is
//! over: what is missing or cut short there would be read as a change that was made, or half made.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ringfence_evidence::Digest;
use ringfence_patch::{Blob, Edit, Mode as FileMode, plain_or_quoted};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, fstat, fsync, open, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::destination::Landed;
use super::error::PromotionError;

/// A file as it stands in the folder, with what is to stay as it is when another takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) blob: Blob,
    /// Its permissions.
    pub(super) mode: u32,
    owner: (u32, u32),
}

/// What a new file may be done with.
pub(super) const NEW_MODE: u32 = 0o644;

/// A folder, and the one file in it that a promotion is about.
#[derive(Debug)]
pub(super) struct DirectoryPlace {
    folder: OwnedFd,
    path: PathBuf,
    name: String,
    draft: String,
    /// The draft while it is written.
    part: String,
    /// What tells whether the file system can do what has to be done in one step.
    trial: String,
}

impl DirectoryPlace {
    /// The folder must be there: a promotion makes no place for itself.
    pub(super) fn open(path: &str, name: &str, promotion: &str) -> Result<Self, PromotionError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = open(path, flags, Mode::empty());
        let folder = opened.map_err(|errno| PromotionError::File { act: "open", path: path.into(), source: errno.into() })?;
        let draft = format!(".ringfence-{promotion}");
        Ok(Self { folder, path: path.into(), name: name.to_owned(), part: format!("{draft}.part"), trial: format!("{draft}.trial"), draft })
    }

    fn failed(&self, act: &'static str, name: &str) -> impl FnOnce(io::Error) -> PromotionError + use<> {
        let path = self.path.join(name);
        move |source| PromotionError::File { act, path, source }
    }

    /// What is in place now.
    pub(super) fn look(&self, most: u64) -> Result<Option<Seen>, PromotionError> {
        self.see(&self.name, most).and_then(|seen| seen.map(replaceable).transpose()).map_err(self.failed("read", &self.name))
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Option<Blob>> {
        Ok(self.see(name, most)?.map(|(seen, _)| seen.blob))
    }

    /// A regular file of the folder, and how many names it has; anything else of that name is an error, never followed.
    fn see(&self, name: &str, most: u64) -> io::Result<Option<(Seen, usize)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(io::Error::other("is a symbolic link, which is never followed")),
            Err(errno) => return Err(errno.into()),
        };
        let status = fstat(&file)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 <= most {
            true => {
                let mode = if status.st_mode & 0o111 == 0 { FileMode::Plain } else { FileMode::Executable };
                let owner = (status.st_uid, status.st_gid);
                Ok(Some((
                    Seen { blob: Blob { mode, bytes }, mode: status.st_mode & 0o7777, owner },
                    usize::try_from(status.st_nlink).unwrap_or(usize::MAX),
                )))
            }
            false => Err(io::Error::other(format!("is longer than {most} bytes, the most that the target takes"))),
        }
    }

    /// Puts the new file beside its place, with the permissions and the owner of the one that it is to replace. Nobody sees it there by its own name. What
    /// the file system cannot do in one step is told now.
    pub(super) fn make_ready(&self, edit: &Edit, old: Option<&Seen>) -> Result<(), PromotionError> {
        self.try_out().map_err(self.failed("try out what has to be done in", "."))?;
        let Some(blob) = &edit.new else { return Ok(()) };
        self.write_draft(blob, old).map_err(|source| {
            // A part that cannot be taken away now is when the promotion is over.
            drop(self.remove(&self.part));
            self.failed("write", &self.draft)(source)
        })
    }

    /// Two files of our own change places, and one moves where nothing is.
    fn try_out(&self) -> io::Result<()> {
        let names = [&self.part, &self.trial];
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        names.iter().try_for_each(|name| self.remove(name))?;
        names.iter().try_for_each(|name| openat(&self.folder, name.as_str(), flags, Mode::from_raw_mode(0o600)).map(drop))?;
        let moved = |flags| renameat_with(&self.folder, &self.part, &self.folder, &self.trial, flags);
        let tried = moved(RenameFlags::EXCHANGE).and_then(|()| {
            unlinkat(&self.folder, &self.trial, AtFlags::empty())?;
            moved(RenameFlags::NOREPLACE)
        });
        names.iter().try_for_each(|name| self.remove(name))?;
        tried.map_err(|errno| {
            io::Error::new(io::Error::from(errno).kind(), format!("its file system cannot exchange files in one step: {errno}"))
        })
    }

    fn write_draft(&self, blob: &Blob, old: Option<&Seen>) -> io::Result<()> {
        self.remove(&self.part)?;
        let mode = Mode::from_raw_mode(old.map_or(NEW_MODE, |old| old.mode));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.folder, &self.part, flags, Mode::from_raw_mode(0o600))?);
        if let Some((user, group)) = old.map(|old| old.owner).filter(|owner| *owner != owner_of(&file)) {
            let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
            rustix::fs::fchown(&file, Some(user), Some(group))?;
        }
        rustix::fs::fchmod(&file, mode)?;
        file.write_all(&blob.bytes)?;
        file.sync_all()?;
        renameat(&self.folder, &self.part, &self.folder, &self.draft)?;
        Ok(fsync(&self.folder)?)
    }

    /// Takes away what is of the promotion's own, where something is. For one that is over.
    pub(super) fn clear(&self) -> Result<(), PromotionError> {
        let names = [&self.part, &self.trial, &self.draft];
        names.into_iter().try_for_each(|name| self.remove(name).map_err(self.failed("remove", name)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        // Where nothing can be written, asking to remove what is not there is an error too.
        match statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Puts what was drafted in its place, if the place holds what was looked at.
    pub(super) fn apply(&self, edit: &Edit) -> Result<(Landed, String), PromotionError> {
        let done = match (&edit.old, &edit.new) {
            (None, Some(_)) => self.rename(&self.draft, &self.name, RenameFlags::NOREPLACE),
            (Some(old), Some(new)) => self.exchange(old, new),
            (Some(old), None) => self.take_away(old),
            (None, None) => Ok(Landed::Yes),
        };
        let landed = match done {
            // What the folder will never take is an end, not something to be tried for ever.
            Err(source) if is_final(&source) => return Ok((Landed::No, source.to_string())),
            done => done.map_err(self.failed("put in place", &self.name))?,
        };
        fsync(&self.folder).map_err(io::Error::from).map_err(self.failed("flush", "."))?;
        // Whoever else can write to the folder may have put something of theirs in the draft's place.
        let is_there = edit.new.as_ref().map_or(Ok(true), |new| self.is(&self.name, new)).map_err(self.failed("read", &self.name))?;
        Ok((if landed == Landed::Yes && !is_there { Landed::Moved } else { landed }, String::new()))
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> io::Result<Landed> {
        match renameat_with(&self.folder, from, &self.folder, to, flags) {
            Ok(()) => Ok(Landed::Yes),
            Err(Errno::EXIST | Errno::NOENT) => Ok(Landed::Moved),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Both change places; what comes out must be what was looked at.
    fn exchange(&self, old: &Blob, new: &Blob) -> io::Result<Landed> {
        if self.rename(&self.draft, &self.name, RenameFlags::EXCHANGE)? == Landed::Moved {
            return Ok(Landed::Moved);
        }
        if self.is(&self.draft, old)? {
            return Ok(Landed::Yes);
        }
        self.put_back(Some(new))
    }

    /// What came out wrongly goes back, and a third thing that stands there by then is kept beside it. That it cannot go back is never the end: what the
    /// place holds then is told by whoever settles it.
    fn put_back(&self, new: Option<&Blob>) -> io::Result<Landed> {
        self.go_back(new).map_err(|error| io::Error::new(error.kind(), format!("what came out cannot be put back: {error}")))
    }

    fn go_back(&self, new: Option<&Blob>) -> io::Result<Landed> {
        let is_back = new.is_some() && self.rename(&self.draft, &self.name, RenameFlags::EXCHANGE)? == Landed::Yes;
        if !is_back {
            self.rename(&self.draft, &self.name, RenameFlags::NOREPLACE)?;
        }
        if !new.map_or(Ok(false), |new| self.is(&self.draft, new))? {
            self.rename(&self.draft, &format!("{}.kept", self.draft), RenameFlags::NOREPLACE)?;
        }
        Ok(Landed::Moved)
    }

    fn take_away(&self, old: &Blob) -> io::Result<Landed> {
        if self.rename(&self.name, &self.draft, RenameFlags::NOREPLACE)? == Landed::Moved {
            return Ok(Landed::Moved);
        }
        if self.is(&self.draft, old)? {
            return Ok(Landed::Yes);
        }
        self.put_back(None)
    }

    fn is(&self, name: &str, blob: &Blob) -> io::Result<bool> {
        let most = blob.bytes.len() as u64;
        // What is longer, or of another kind, is another.
        Ok(self.read(name, most).unwrap_or(None).is_some_and(|found| found.bytes == blob.bytes))
    }

    /// How far an attempt came that was cut short after the draft was made. What was taken out wrongly is put back.
    pub(super) fn settle(&self, edit: &Edit, most: u64) -> Result<Landed, PromotionError> {
        let (place, draft) = (self.digest(&self.name, most)?, self.digest(&self.draft, most)?);
        let of = |blob: &Option<Blob>| blob.as_ref().map(|blob| Digest::of(&blob.bytes));
        let (old, new) = (of(&edit.old), of(&edit.new));
        Ok(match draft {
            // The old version came out.
            Some(out) if Some(out) == old => Landed::Yes,
            Some(waiting) if Some(waiting) == new => {
                if place == old {
                    Landed::No
                } else {
                    Landed::Moved
                }
            }
            // Something else came out. Where a third thing stands by now, it is kept beside that.
            Some(_) => {
                let back = match place {
                    Some(place) if Some(place) == new => self.rename(&self.draft, &self.name, RenameFlags::EXCHANGE),
                    None => self.rename(&self.draft, &self.name, RenameFlags::NOREPLACE),
                    Some(_) => self.rename(&self.draft, &format!("{}.kept", self.draft), RenameFlags::NOREPLACE),
                };
                back.map_err(self.failed("put back", &self.name))?;
                Landed::Moved
            }
            // It went to a place that was free, whatever became of it there (whole draft).
            None if old.is_none() && new.is_some() => Landed::Yes,
            // Nothing was drafted, as when a file is taken away; or somebody else has cleared up here.
            None if place == new => Landed::Yes,
            None if place == old => Landed::No,
            None => Landed::Moved,
        })
    }

    /// What is under a name; for something that is not a file, or too long for one of ours, a digest that no file has.
    fn digest(&self, name: &str, most: u64) -> Result<Option<Digest>, PromotionError> {
        match self.read(name, most) {
            Ok(blob) => Ok(blob.map(|blob| Digest::of(&blob.bytes))),
            Err(source) if source.kind() == io::ErrorKind::Other => Ok(Some(Digest::zero())),
            Err(source) => Err(self.failed("read", name)(source)),
        }
    }
}

/// A file that another can take the place of without anything being lost that nobody sees.
fn replaceable((seen, names): (Seen, usize)) -> io::Result<Seen> {
    let me = rustix::process::geteuid();
    if names > 1 {
        return Err(io::Error::other(format!("has {names} names (hard links), of which only one would be replaced")));
    }
    match me.is_root() || seen.owner.0 == me.as_raw() {
        true => Ok(seen),
        false => Err(io::Error::other(format!("belongs to user {}, and would not any more", seen.owner.0))),
    }
}

fn owner_of(file: &File) -> (u32, u32) {
    fstat(file).map_or((u32::MAX, u32::MAX), |status| (status.st_uid, status.st_gid))
}

fn is_final(error: &io::Error) -> bool {
    let finals = [Errno::INVAL, Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::ROFS, Errno::XDEV, Errno::OPNOTSUPP];
    error.raw_os_error().is_some_and(|raw| finals.iter().any(|errno| errno.raw_os_error() == raw))
}

/// The name that an artifact has in a folder: the last part of its path, and nothing that hides or leads elsewhere.
pub(super) fn name_of(path: &str) -> Result<String, PromotionError> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain = !name.is_empty()
        && !name.starts_with(['.', '-'])
        && name.len() <= 200
        && name.chars().all(|c| c.is_alphanumeric() || " ._-+@~(),".contains(c));
    match is_plain {
        true => Ok(name.to_owned()),
        false => Err(PromotionError::NotTaken {
            rule: format!("artifact {} has no name that a folder of others can take", plain_or_quoted(path.as_bytes())),
            hint: "export it under a name of letters, digits, spaces and `._-+@~(),` that does not begin with a dot or a hyphen".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MOST: u64 = 1000;

    struct Case {
        folder: tempfile::TempDir,
        place: DirectoryPlace,
    }

    impl Case {
        /// A folder that holds `there`.
        fn with(there: Option<&str>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            if let Some(text) = there {
                fs::write(folder.path().join("report.md"), text).unwrap();
            }
            let place = DirectoryPlace::open(folder.path().to_str().unwrap(), "report.md", "p").unwrap();
            Self { folder, place }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).unwrap();
        }

        fn assert_holds(&self, wanted: &[(&str, &str)]) {
            let mut found: Vec<(String, String)> = fs::read_dir(self.folder.path())
                .unwrap()
                .flatten()
                .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
                .collect();
            found.sort();
            assert_eq!(found, wanted.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>());
        }
    }

    fn edit(old: Option<&str>, new: Option<&str>) -> Edit {
        let blob = |text: &str| Blob { mode: FileMode::Plain, bytes: text.into() };
        Edit { path: b"report.md".to_vec(), old: old.map(blob), new: new.map(blob) }
    }

    /// Each change, cut short after each of its steps, and what is left afterwards.
    #[test]
    fn whoever_comes_after_a_crash_sees_how_far_it_came() {
        for (old, new) in [(Some("old"), Some("new")), (None, Some("new")), (Some("old"), None)] {
            let (case, edit) = (Case::with(old), edit(old, new));
            case.place.make_ready(&edit, None).unwrap();
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::No);
            // Drafted once more, by somebody who is killed in the middle.
            case.write(".ringfence-p.part", "ne");
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::No);
            case.place.make_ready(&edit, None).unwrap();
            assert_eq!(case.place.apply(&edit).unwrap().0, Landed::Yes);
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Yes);
            case.place.clear().unwrap();
            let left: Vec<(&str, &str)> = new.map(|text| ("report.md", text)).into_iter().collect();
            case.assert_holds(&left);
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Yes);
        }
    }

    #[test]
    fn what_somebody_else_put_there_stays_and_is_told() {
        for (old, new) in [(Some("old"), Some("new")), (None, Some("new")), (Some("old"), None)] {
            for other in ["other", "x".repeat(3000).as_str()] {
                let (case, edit) = (Case::with(old), edit(old, new));
                case.place.make_ready(&edit, None).unwrap();
                case.write("report.md", other);
                assert_eq!(case.place.apply(&edit).unwrap().0, Landed::Moved);
                assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Moved);
                case.place.clear().unwrap();
                case.assert_holds(&[("report.md", other)]);
            }
        }
    }

    /// Killed between changing places and changing them back.
    #[test]
    fn what_came_out_wrongly_is_put_back() {
        for (draft, there, new) in [("other", Some("new"), Some("new")), ("other", None, None)] {
            let (case, edit) = (Case::with(there), edit(Some("old"), new));
            case.write(".ringfence-p", draft);
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Moved);
            case.place.clear().unwrap();
            case.assert_holds(&[("report.md", "other")]);
        }
    }

    /// A third thing stands in the place by the time at which what came out goes back: both are kept.
    #[test]
    fn what_came_out_is_kept_where_its_place_is_taken() {
        for new in [None, Some("new")] {
            let (case, edit) = (Case::with(Some("third")), edit(Some("old"), new));
            case.write(".ringfence-p", "other");
            assert_eq!(case.place.put_back(edit.new.as_ref()).unwrap(), Landed::Moved);
            case.place.clear().unwrap();
            let wanted = if new.is_none() { ("other", "third") } else { ("third", "other") };
            case.assert_holds(&[(".ringfence-p.kept", wanted.0), ("report.md", wanted.1)]);
        }
    }

    /// Somebody who clears up takes the draft away.
    #[test]
    fn a_draft_that_is_gone_is_no_change() {
        let (case, edit) = (Case::with(Some("old")), edit(Some("old"), Some("new")));
        assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::No);
        case.write("report.md", "other");
        assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Moved);
        case.write("report.md", "new");
        assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Yes);
    }

    #[test]
    fn a_link_in_its_place_is_left_alone() {
        let (case, edit) = (Case::with(None), edit(Some("old"), Some("new")));
        std::os::unix::fs::symlink("nowhere", case.folder.path().join("report.md")).unwrap();
        case.place.make_ready(&edit, None).unwrap();
        assert_eq!(case.place.apply(&edit).unwrap().0, Landed::Moved);
        assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Moved);
        assert!(fs::symlink_metadata(case.folder.path().join("report.md")).unwrap().is_symlink());
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions_and_one_with_two_names_is_left_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (case, edit) = (Case::with(Some("old")), edit(Some("old"), Some("new")));
        let path = case.folder.path().join("report.md");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let seen = case.place.look(MOST).unwrap().unwrap();
        case.place.make_ready(&edit, Some(&seen)).unwrap();
        assert_eq!(case.place.apply(&edit).unwrap().0, Landed::Yes);
        case.place.clear().unwrap();
        case.assert_holds(&[("report.md", "new")]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        fs::hard_link(&path, case.folder.path().join("other.md")).unwrap();
        assert!(case.place.look(MOST).unwrap_err().to_string().contains("2 names"));
    }

    /// Somebody else who can write to the folder puts something of theirs where the draft is.
    #[test]
    fn what_is_not_the_tested_file_is_not_called_applied() {
        let (case, edit) = (Case::with(Some("old")), edit(Some("old"), Some("new")));
        case.place.make_ready(&edit, None).unwrap();
        case.write(".ringfence-p", "theirs");
        assert_eq!(case.place.apply(&edit).unwrap().0, Landed::Moved);
    }
}
