//! The journal of one run: a folder that is the record, and a locked file beside it for as long as the run is not sealed.
//!
//! The lock tells a run that lives from one whose process is gone: the kernel lets go of it however the process ends. A file is made, locked and
//! only then put in its place, so that nobody ever sees it unlocked while its owner lives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ringfence_evidence::{
    ArtifactRecord, Chain, Digest, EVENTS_FILE, Envelope, Event, RunEnd, RunStatement, STATEMENT_FILE, Seal, SigningKey, read_chain, verify,
};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::error::{At, StoreError};
use crate::home::{Home, place_whole, sweep_drafts};
use crate::run_id::RunId;

/// The time by the wall clock, RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

/// Room kept from the start for the end of the record, so that a run that was accepted can be sealed although the disk is full by then.
const RESERVE: &str = "reserve";
const RESERVED_BYTES: u64 = 128 << 10;

/// The journal of a run that is not sealed.
#[derive(Debug)]
pub struct Journal {
    run: RunId,
    folder: PathBuf,
    writer: JournalWriter,
    live: File,
    live_path: PathBuf,
    work: PathBuf,
}

/// The lines of a record, and what is needed to add one.
#[derive(Debug)]
struct Lines {
    events: File,
    chain: Chain,
    digest: Sha256,
    artifacts: Vec<ArtifactRecord>,
    started_at: Instant,
    /// Whether the last one is there.
    is_complete: bool,
}

/// Adds events to a record from any thread, one at a time, until its last one.
#[derive(Debug, Clone)]
pub struct JournalWriter {
    path: PathBuf,
    lines: Arc<Mutex<Lines>>,
}

impl JournalWriter {
    /// Writes an event. It is in the kernel's hands, and durable once the record is flushed or sealed.
    pub fn append(&self, event: Event) -> Result<(), StoreError> {
        let mut lines = self.lines();
        if lines.is_complete {
            return Err(StoreError::Record { run: self.path.display().to_string(), cause: "its last event is written".into() });
        }
        let elapsed = u64::try_from(lines.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        lines.artifacts.extend(artifact_of(&event));
        lines.is_complete = matches!(event, Event::RunEnded { .. });
        let linked = lines.chain.link(now(), elapsed, event);
        let line = linked.map_err(|e| StoreError::Record { run: self.path.display().to_string(), cause: e.to_string() })?;
        lines.events.write_all(line.as_bytes()).at("write", &self.path)?;
        lines.digest.update(&line);
        Ok(())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run whose record is sealed and durable. Its mark and its private folder are still there: a sweep would know what the run may have left.
#[derive(Debug)]
pub struct Sealed {
    /// Digest of the statement's file.
    pub statement: Digest,
    live_path: PathBuf,
    work: PathBuf,
    _live: File,
}

impl Sealed {
    /// The run is over and nothing is left of it: its private folder and its mark go.
    pub fn leave(self) -> Result<(), StoreError> {
        remove_tree(&self.work)?;
        fs::remove_file(&self.live_path).at("remove", &self.live_path)
    }
}

impl Journal {
    /// Begins the record of a run. `traces` is what a sweep needs to take its sandbox away.
    pub fn create(home: &Home, run: &RunId, traces: &impl Serialize) -> Result<Self, StoreError> {
        let (live, live_path) = lock_new(home, run, traces)?;
        let folder = home.runs().join(run.as_str());
        fs::DirBuilder::new().mode(0o700).create(&folder).at("make", &folder)?;
        let path = folder.join(EVENTS_FILE);
        let events = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).at("make", &path)?;
        let work = home.work().join(run.as_str());
        let lines = Lines {
            events,
            chain: Chain::default(),
            digest: Sha256::new(),
            artifacts: Vec::new(),
            started_at: Instant::now(),
            is_complete: false,
        };
        let writer = JournalWriter { path, lines: Arc::new(Mutex::new(lines)) };
        Ok(Self { run: run.clone(), folder, writer, live, live_path, work })
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Where the private folder of the run is to be, if it needs one; it goes with the run.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Writes an event. It is in the kernel's hands, and durable after the next [`flush`](Self::flush).
    pub fn append(&self, event: Event) -> Result<(), StoreError> {
        self.writer.append(event)
    }

    /// Somebody else who adds events while the run goes on.
    pub fn writer(&self) -> JournalWriter {
        self.writer.clone()
    }

    /// Makes what was written durable.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.writer.lines().events.sync_data().at("flush", &self.writer.path)
    }

    /// Accepts the run: there is room for its end, what was written so far is durable, and so is the place where it stands.
    pub fn accept(&self) -> Result<(), StoreError> {
        reserve(&self.folder)?;
        let runs = self.folder.parent().unwrap_or(&self.folder);
        let live = self.live_path.parent().unwrap_or(&self.live_path);
        let folders = [(open(&self.folder)?, self.folder.as_path()), (open(runs)?, runs), (open(live)?, live)];
        flush_all(&with(&folders, (&self.writer.lines().events, &self.writer.path)))
    }

    /// Replaces what a sweep needs to know.
    pub fn trace(&mut self, traces: &impl Serialize) -> io::Result<()> {
        write_traces(&self.live, traces)
    }

    /// Ends the record: the last event, the signed statement, everything durable.
    pub fn seal(self, end: &RunEnd, key: &SigningKey, version: &str) -> Result<Sealed, StoreError> {
        release(&self.folder)?;
        self.append(Event::RunEnded { end: end.clone() })?;
        self.sign(end, key, version)
    }

    /// Signs what is written, whose last event is the end. One wait for the disk: what a power cut leaves of an unfinished seal is signed anew.
    fn sign(self, end: &RunEnd, key: &SigningKey, version: &str) -> Result<Sealed, StoreError> {
        let lines = self.writer.lines();
        let seal = Seal { run: self.run.to_string(), events: lines.chain.length(), end: end.clone(), version: version.to_owned() };
        let signed = RunStatement::over(Digest::from_bytes(lines.digest.clone().finalize().into()), &lines.artifacts, seal)
            .sign(key)
            .map_err(|e| self.broken(&e))?;
        let path = self.folder.join(STATEMENT_FILE);
        let placed = place_whole(&path, &signed, 0o600)?;
        let runs = self.folder.parent().unwrap_or(&self.folder);
        let others = [(placed, path.as_path()), (open(&self.folder)?, self.folder.as_path()), (open(runs)?, runs)];
        flush_all(&with(&others, (&lines.events, &self.writer.path)))?;
        drop(lines);
        Ok(Sealed { statement: Digest::of(&signed), live_path: self.live_path, work: self.work, _live: self.live })
    }

    fn broken(&self, cause: &dyn std::fmt::Display) -> StoreError {
        StoreError::Record { run: self.run.to_string(), cause: cause.to_string() }
    }
}

fn open(folder: &Path) -> Result<File, StoreError> {
    File::open(folder).at("open", folder)
}

/// A file and its path, for what is to be told of it.
type Named<'a> = (&'a File, &'a Path);

fn with<'a>(others: &'a [(File, &'a Path)], last: Named<'a>) -> Vec<Named<'a>> {
    others.iter().map(|(file, path)| (file, *path)).chain([last]).collect()
}

/// Makes files durable together: waits that overlap share one turn of the disk. On a memory file system there is nothing to wait for.
fn flush_all(files: &[Named<'_>]) -> Result<(), StoreError> {
    const TMPFS_MAGIC: i128 = 0x0102_1994;
    if files.iter().all(|(file, _)| rustix::fs::fstatfs(file).is_ok_and(|fs| i128::from(fs.f_type) == TMPFS_MAGIC)) {
        return Ok(());
    }
    let flush = |(file, path): &Named<'_>| file.sync_all().at("flush", path);
    let Some((last, others)) = files.split_last() else { return Ok(()) };
    std::thread::scope(|scope| {
        // Where no thread can be had, the waits follow each other.
        let begun = others.iter().map(|file| (file, std::thread::Builder::new().spawn_scoped(scope, move || flush(file))));
        let begun: Vec<_> = begun.collect();
        let done = flush(last);
        begun.into_iter().fold(done, |done, (file, thread)| {
            let other = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => flush(file),
            };
            done.and(other)
        })
    })
}

/// The mark of a sandbox that no run has yet: a sweep knows by it what is left of one whose process is gone.
#[derive(Debug)]
pub struct Mark {
    live: File,
    path: PathBuf,
}

impl Mark {
    /// Makes one, locked for as long as it lives.
    pub fn place(home: &Home, name: &RunId, traces: &impl Serialize) -> Result<Self, StoreError> {
        let (live, path) = lock_new(home, name, traces)?;
        Ok(Self { live, path })
    }

    /// Replaces what a sweep needs to know.
    pub fn trace(&self, traces: &impl Serialize) -> io::Result<()> {
        write_traces(&self.live, traces)
    }

    /// Nothing is left of the sandbox, or a run has it now.
    pub fn leave(self) -> Result<(), StoreError> {
        fs::remove_file(&self.path).at("remove", &self.path)
    }
}

fn write_traces(mut live: &File, traces: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(traces)?;
    rustix::fs::seek(live, rustix::fs::SeekFrom::Start(0))?;
    live.write_all(&bytes)?;
    live.set_len(bytes.len() as u64)
}

fn lock_new(home: &Home, run: &RunId, traces: &impl Serialize) -> Result<(File, PathBuf), StoreError> {
    let path = home.live().join(run.as_str());
    let draft = home.root().join(format!("{run}.draft-{}", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft).at("make", &draft)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from).at("lock", &draft)?;
    let bytes = serde_json::to_vec(traces).map_err(|e| StoreError::Record { run: run.to_string(), cause: e.to_string() })?;
    let placed = file.write_all(&bytes).and_then(|()| fs::rename(&draft, &path));
    if placed.is_err() {
        fs::remove_file(&draft).unwrap_or_default();
    }
    placed.at("make", &path)?;
    Ok((file, path))
}

fn reserve(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(RESERVE);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).at("make", &path)?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVED_BYTES) {
        // A file system that cannot promise room: what is written later may not fit, and is then sealed once there is room.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(io::Error::from(errno)).at("reserve room in", &path),
    }
}

fn release(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(RESERVE);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("remove", &path),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn remove_tree(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::remove_dir_all(path) {
        // A copy keeps the modes of what it was made from: folders that are closed for writing hold on to what is in them.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => open_folders(path).and_then(|()| fs::remove_dir_all(path)),
        removed => removed,
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("remove", path),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn open_folders(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    fs::read_dir(path)?.try_for_each(|entry| {
        let entry = entry?;
        if entry.file_type()?.is_dir() { open_folders(&entry.path()) } else { Ok(()) }
    })
}

/// A run whose process is gone before it was sealed, held by the lock that it lost.
#[derive(Debug)]
pub struct Orphan {
    run: RunId,
    live: File,
    live_path: PathBuf,
}

impl Orphan {
    /// Every such run of a home. Runs of living processes are left alone.
    pub fn find_all(home: &Home) -> Result<Vec<Self>, StoreError> {
        let live = home.live();
        let mut orphans = Vec::new();
        for entry in fs::read_dir(&live).at("read", &live)?.flatten() {
            let path = entry.path();
            let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_still(&file, &path) {
                continue;
            }
            if let Some(run) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                orphans.push(Self { run, live: file, live_path: path });
            }
        }
        Ok(orphans)
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// What its process left on record about its sandbox. A process that was killed while it replaced a longer text left the end of that behind.
    pub fn traces<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut text = String::new();
        self.live.read_to_string(&mut text).ok()?;
        serde_json::Deserializer::from_str(&text).into_iter().next()?.ok()
    }

    /// Puts the mark of a run whose record cannot be ended aside, so that it is looked at once and by a person; the record stays as it is.
    pub fn set_aside(self, home: &Home) -> Result<(), StoreError> {
        let aside = home.damaged().join(self.run.as_str());
        fs::rename(&self.live_path, &aside).at("put aside", &self.live_path)
    }

    /// True if the record is sealed, and durable then. A statement that a power cut left incomplete is taken away; one that is whole and does not fit
    /// the events is for a person to look at.
    fn is_sealed(&self, folder: &Path, key: &SigningKey) -> Result<bool, StoreError> {
        let (events, path) = (folder.join(EVENTS_FILE), folder.join(STATEMENT_FILE));
        let Ok(statement) = fs::read(&path) else { return Ok(false) };
        if serde_json::from_slice::<Envelope>(&statement).is_err() {
            return fs::remove_file(&path).at("remove", &path).map(|()| false);
        }
        let bytes = fs::read(&events).at("read", &events)?;
        verify(&bytes, &statement, &key.public()).map_err(|e| StoreError::Record { run: self.run.to_string(), cause: e.to_string() })?;
        let files = [(open(&events)?, events.as_path()), (open(&path)?, path.as_path())];
        flush_all(&with(&files, (&open(folder)?, folder)))?;
        Ok(true)
    }

    /// Ends the record: sealed as failed, or removed if it was never accepted. Its private folder goes.
    pub fn settle(&self, home: &Home, end: &RunEnd, key: &SigningKey, version: &str) -> Result<(), StoreError> {
        let folder = home.runs().join(self.run.as_str());
        let path = folder.join(EVENTS_FILE);
        let work = home.work().join(self.run.as_str());
        let bytes = fs::read(&path).unwrap_or_default();
        // A line that was being written when the process ended was never acted upon.
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        sweep_drafts(&folder)?;
        release(&folder)?;
        let is_sealed = self.is_sealed(&folder, key)?;
        if is_sealed || whole == 0 {
            remove_tree(&work)?;
            if !is_sealed {
                remove_tree(&folder)?;
            }
            return fs::remove_file(&self.live_path).at("remove", &self.live_path);
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let lines = read_chain(text.as_bytes()).map_err(|e| StoreError::Record { run: self.run.to_string(), cause: e.to_string() })?;
        let events = OpenOptions::new().append(true).open(&path).at("open", &path)?;
        events.set_len(whole as u64).at("cut", &path)?;
        let written = Lines {
            events,
            chain: Chain::after(&lines, &text),
            digest: Sha256::new_with_prefix(&text),
            artifacts: lines.iter().filter_map(|line| artifact_of(&line.event)).collect(),
            // Time goes on from where the record stops.
            started_at: Instant::now() - std::time::Duration::from_millis(lines.last().map_or(0, |line| line.elapsed_ms)),
            is_complete: false,
        };
        let journal = Journal {
            run: self.run.clone(),
            folder,
            writer: JournalWriter { path, lines: Arc::new(Mutex::new(written)) },
            live: self.live.try_clone().at("keep", &self.live_path)?,
            live_path: self.live_path.clone(),
            work,
        };
        match lines.last().map(|line| &line.event) {
            // The last event was written, the statement was not: what is there is signed as it is.
            Some(Event::RunEnded { end }) => journal.sign(end, key, version)?.leave(),
            _ => journal.seal(end, key, version)?.leave(),
        }
    }
}

fn artifact_of(event: &Event) -> Option<ArtifactRecord> {
    match event {
        Event::ArtifactExported { artifact } => Some(artifact.clone()),
        _ => None,
    }
}

/// True if the path still names the file: another sweep may have settled the run between the look and the lock.
fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: fs::Metadata, b: fs::Metadata| a.ino() == b.ino() && a.dev() == b.dev();
    file.metadata().and_then(|a| fs::metadata(path).map(|b| same(a, b))).unwrap_or(false)
}
