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
use ringfence_patch::{Blob, Edit, Mode as FileMode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, fstat, fsync, open, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::destination::Landed;
use super::error::PromotionError;

/// A folder, and the one file in it that a promotion is about.
#[derive(Debug)]
pub(super) struct DirectoryPlace {
    folder: OwnedFd,
    path: PathBuf,
    name: String,
    draft: String,
    /// The draft while it is written.
    part: String,
}

impl DirectoryPlace {
    /// The folder must be there: a promotion makes no place for itself.
    pub(super) fn open(path: &str, name: &str, promotion: &str) -> Result<Self, PromotionError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = open(path, flags, Mode::empty());
        let folder = opened.map_err(|errno| PromotionError::File { act: "open", path: path.into(), source: errno.into() })?;
        let draft = format!(".ringfence-{promotion}");
        Ok(Self { folder, path: path.into(), name: name.to_owned(), part: format!("{draft}.part"), draft })
    }

    fn failed(&self, act: &'static str, name: &str) -> impl FnOnce(io::Error) -> PromotionError + use<> {
        let path = self.path.join(name);
        move |source| PromotionError::File { act, path, source }
    }

    /// What is in place now.
    pub(super) fn look(&self, most: u64) -> Result<Option<Blob>, PromotionError> {
        self.read(&self.name, most).map_err(self.failed("read", &self.name))
    }

    /// A regular file of the folder; anything else of that name is an error, never followed.
    fn read(&self, name: &str, most: u64) -> io::Result<Option<Blob>> {
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
            true => Ok(Some(Blob { mode: if status.st_mode & 0o111 == 0 { FileMode::Plain } else { FileMode::Executable }, bytes })),
            false => Err(io::Error::other(format!("is longer than {most} bytes, the most that the target takes"))),
        }
    }

    /// Puts the new file beside its place. Nobody sees it there by its own name.
    pub(super) fn draft(&self, edit: &Edit) -> Result<(), PromotionError> {
        let Some(blob) = &edit.new else { return Ok(()) };
        self.write_draft(blob).map_err(|source| {
            // A part that cannot be taken away now is when the promotion is over.
            drop(self.remove(&self.part));
            self.failed("write", &self.draft)(source)
        })
    }

    fn write_draft(&self, blob: &Blob) -> io::Result<()> {
        self.remove(&self.part)?;
        let mode = Mode::from_raw_mode(if blob.mode == FileMode::Executable { 0o755 } else { 0o644 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.folder, &self.part, flags, mode)?);
        rustix::fs::fchmod(&file, mode)?;
        file.write_all(&blob.bytes)?;
        file.sync_all()?;
        renameat(&self.folder, &self.part, &self.folder, &self.draft)?;
        Ok(fsync(&self.folder)?)
    }

    /// Takes away what is of the promotion's own, where something is. For one that is over.
    pub(super) fn clear(&self) -> Result<(), PromotionError> {
        let names = [&self.part, &self.draft];
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
    pub(super) fn apply(&self, edit: &Edit) -> Result<Landed, PromotionError> {
        let done = match (&edit.old, &edit.new) {
            (None, Some(_)) => self.rename(&self.draft, &self.name, RenameFlags::NOREPLACE),
            (Some(old), Some(_)) => self.exchange(old),
            (Some(old), None) => self.take_away(old),
            (None, None) => Ok(Landed::Yes),
        };
        let landed = done.map_err(self.failed("put in place", &self.name))?;
        fsync(&self.folder).map_err(io::Error::from).map_err(self.failed("flush", "."))?;
        Ok(landed)
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> io::Result<Landed> {
        match renameat_with(&self.folder, from, &self.folder, to, flags) {
            Ok(()) => Ok(Landed::Yes),
            Err(Errno::EXIST | Errno::NOENT) => Ok(Landed::Moved),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Both change places; what comes out must be what was looked at.
    fn exchange(&self, old: &Blob) -> io::Result<Landed> {
        if self.rename(&self.draft, &self.name, RenameFlags::EXCHANGE)? == Landed::Moved {
            return Ok(Landed::Moved);
        }
        if self.is(&self.draft, old)? {
            return Ok(Landed::Yes);
        }
        self.rename(&self.draft, &self.name, RenameFlags::EXCHANGE).map(|_| Landed::Moved)
    }

    fn take_away(&self, old: &Blob) -> io::Result<Landed> {
        if self.rename(&self.name, &self.draft, RenameFlags::NOREPLACE)? == Landed::Moved {
            return Ok(Landed::Moved);
        }
        if self.is(&self.draft, old)? {
            return Ok(Landed::Yes);
        }
        self.rename(&self.draft, &self.name, RenameFlags::NOREPLACE).map(|_| Landed::Moved)
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
            // Something else came out.
            Some(_) => {
                let flags = if new.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
                self.rename(&self.draft, &self.name, flags).map_err(self.failed("put back", &self.name))?;
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

/// The name that an artifact has in a folder: the last part of its path, and nothing that hides or leads elsewhere.
pub(super) fn name_of(path: &str) -> Result<String, PromotionError> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain =
        !name.is_empty() && !name.starts_with(['.', '-']) && name.len() <= 200 && !name.chars().any(|c| c.is_control() || c == '%');
    match is_plain {
        true => Ok(name.to_owned()),
        false => Err(PromotionError::NotTaken {
            rule: format!("artifact `{}` has no name that a folder of others can take", path.escape_debug()),
            hint: "export it under a plain name that does not begin with a dot or a hyphen".into(),
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
            case.place.draft(&edit).unwrap();
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::No);
            // Drafted once more, by somebody who is killed in the middle.
            case.write(".ringfence-p.part", "ne");
            assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::No);
            case.place.draft(&edit).unwrap();
            assert_eq!(case.place.apply(&edit).unwrap(), Landed::Yes);
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
                case.place.draft(&edit).unwrap();
                case.write("report.md", other);
                assert_eq!(case.place.apply(&edit).unwrap(), Landed::Moved);
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
        case.place.draft(&edit).unwrap();
        assert_eq!(case.place.apply(&edit).unwrap(), Landed::Moved);
        assert_eq!(case.place.settle(&edit, MOST).unwrap(), Landed::Moved);
        assert!(fs::symlink_metadata(case.folder.path().join("report.md")).unwrap().is_symlink());
    }
}
