//! Typed documents by name: one JSON file each, beneath a folder of the home. The files are the record.
//!
//! A document is replaced whole, and only by who holds the registry's lock: whoever reads, decides and writes does all three under it. Readers need no
//! lock, for what they see is always one whole document. A file that does not read, has a field that nobody knows or bears another name fails
//! closed: an error with its path, never a document that is left out.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{At, StoreError};
use crate::home::{Home, write_whole};

/// A document longer than this was not written by us.
const LONGEST: u64 = 16 << 20;
/// Whoever holds the lock waits for nothing but the disk.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Something that is kept as one file.
pub trait Document: Serialize + DeserializeOwned {
    /// The folder beneath the home.
    const FOLDER: &'static str;

    /// Its name, which is that of its file too.
    fn name(&self) -> &str;
}

/// The right to change documents, held by one process at a time.
#[derive(Debug)]
pub struct RegistryLock {
    _file: File,
}

impl RegistryLock {
    /// Takes the lock, waiting for whoever has it. It is let go of when it is dropped, and by the kernel when its process ends.
    pub fn take(home: &Home) -> Result<Self, StoreError> {
        let path = home.root().join("registry.lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).at("open", &path)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if begun.elapsed() < LONGEST_WAIT => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return Err(StoreError::Busy { path }),
                Err(errno) => return Err(io::Error::from(errno)).at("lock", &path),
            }
        }
    }
}

/// The documents of one kind.
#[derive(Debug, Clone)]
pub struct Documents<T> {
    folder: PathBuf,
    kind: PhantomData<fn() -> T>,
}

impl<T: Document> Documents<T> {
    /// Those of a home.
    pub fn of(home: &Home) -> Self {
        Self { folder: home.root().join(T::FOLDER), kind: PhantomData }
    }

    /// Where the document of that name is kept.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// The document of that name, if there is one.
    pub fn get(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.path(name);
        if !is_plain(name) {
            return Err(damaged(&path, "a document cannot have that name"));
        }
        let Some(text) = read(&path)? else { return Ok(None) };
        let document: T = serde_json::from_str(&text).map_err(|error| damaged(&path, &error.to_string()))?;
        match document.name() == name {
            true => Ok(Some(document)),
            false => Err(damaged(&path, &format!("it is the record of `{}`", document.name().escape_debug()))),
        }
    }

    /// Every document, by name.
    pub fn all(&self) -> Result<Vec<T>, StoreError> {
        let mut names = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at("read", &self.folder)?,
        };
        for entry in entries {
            let name = entry.at("read", &self.folder)?.file_name();
            let name = name.to_str().ok_or_else(|| damaged(&self.folder.join(&name), "a document cannot have that name"))?;
            names.extend(name.strip_suffix(".json").map(str::to_owned));
        }
        names.sort();
        let found = names.iter().map(|name| self.get(name));
        found.filter_map(Result::transpose).collect()
    }

    /// Puts a document in the place of the one of its name. Durable once this returns.
    pub fn put(&self, _lock: &RegistryLock, document: &T) -> Result<(), StoreError> {
        let path = self.path(document.name());
        if !is_plain(document.name()) {
            return Err(damaged(&path, "a document cannot have that name"));
        }
        let mut text = serde_json::to_vec_pretty(document).map_err(|error| damaged(&path, &error.to_string()))?;
        text.push(b'\n');
        write_whole(&path, &text, 0o600)?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).at("flush", &self.folder)
    }
}

/// What a name is was decided by its type; that it is none with a slash is seen here once more.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_allowed)
}

/// A plain file of sensible length; a link, or a pipe that would keep us for ever, is none of ours.
pub(crate) fn read(path: &Path) -> Result<Option<String>, StoreError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.at("read", path)?,
    };
    let meta = file.metadata().at("read", path)?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Err(damaged(path, "it is not a regular file of at most 16 MiB"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).at("read", path)?;
    String::from_utf8(bytes).map(Some).map_err(|error| damaged(path, &error.to_string()))
}

pub(crate) fn damaged(path: &Path, cause: &str) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), cause: cause.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        name: String,
        text: String,
    }

    impl Document for Note {
        const FOLDER: &'static str = "persons";

        fn name(&self) -> &str {
            &self.name
        }
    }

    fn note(name: &str) -> Note {
        Note { name: name.into(), text: "x".into() }
    }

    fn notes() -> (tempfile::TempDir, Home, Documents<Note>) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        let notes = Documents::of(&home);
        (folder, home, notes)
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let (_folder, home, notes) = notes();
        let lock = RegistryLock::take(&home).unwrap();
        notes.put(&lock, &note("b")).unwrap();
        notes.put(&lock, &note("a.b")).unwrap();
        assert_eq!(notes.get("b").unwrap(), Some(note("b")));
        assert_eq!(notes.get("c").unwrap(), None);
        assert_eq!(notes.all().unwrap(), [note("a.b"), note("b")]);
        assert!(notes.put(&lock, &note("../x")).is_err() && notes.get("a/b").is_err() && notes.get(".a").is_err());
    }

    #[test]
    fn what_does_not_read_fails_closed_with_its_path() {
        let (_folder, home, notes) = notes();
        let path = notes.path("a");
        for text in ["", "{", "{\"name\":\"a\"}", "{\"name\":\"a\",\"text\":\"x\",\"more\":1}", "{\"name\":\"b\",\"text\":\"x\"}"] {
            fs::write(&path, text).unwrap();
            let error = notes.get("a").unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("persons/a.json"), "{text}: {error}");
            assert!(notes.all().is_err() && !error.hint().is_empty());
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(home.root().join("format"), &path).unwrap();
        assert!(notes.get("a").is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(notes.get("a").is_err());
    }

    #[test]
    fn one_at_a_time_has_the_lock() {
        let (_folder, home, notes) = notes();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let lock = RegistryLock::take(&home).unwrap();
                    let before = notes.get("n").unwrap().map_or(String::new(), |note| note.text);
                    notes.put(&lock, &Note { name: "n".into(), text: format!("{before}x") }).unwrap();
                });
            }
        });
        assert_eq!(notes.get("n").unwrap().unwrap().text, "x".repeat(8));
    }
}
