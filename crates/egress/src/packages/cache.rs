//! What is kept between runs: files under each of their hashes, and what an index last said.
//!
//! INVARIANT (verified): a file is found only if its bytes have the hashes that were asked for, so whoever alters a kept file makes it be
//! fetched anew. A file arrives by renaming a draft that was checked whole. Folders are the operator's alone, and no sandbox sees them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::archive::Format;
use super::client::Page;
use super::digest::{Algorithm, Digests, FileHash, hexadecimal};

/// A draft older than this was left by a process that is gone.
const OLD_DRAFT: Duration = Duration::from_secs(3600);

static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// A folder of kept files.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// A file in the making; it is removed unless it is admitted.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) file: tokio::fs::File,
    path: PathBuf,
}

impl Draft {
    /// The draft from its start, to look into.
    pub(crate) fn reader(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After it was admitted there is nothing by this name; otherwise the next opening sweeps what is still there.
        drop(fs::remove_file(&self.path));
    }
}

/// A kept file whose bytes were just checked.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) file: File,
    pub(crate) digests: Digests,
}

/// One kept file with all of its names.
#[derive(Default)]
struct Kept {
    bytes: u64,
    paths: Vec<PathBuf>,
}

/// What stands before a kept page.
#[derive(Serialize, Deserialize)]
struct PageHead {
    key: String,
    url: String,
    content_type: String,
    fetched_at_ms: u64,
}

impl Cache {
    /// Makes the folders and sweeps old drafts.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        for part in ["files", "pages", "drafts"] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder.join(part))?;
        }
        for entry in fs::read_dir(folder.join("drafts"))? {
            let entry = entry?;
            let changed_at = entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::now());
            if changed_at.elapsed().is_ok_and(|age| age > OLD_DRAFT) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Self { folder: folder.to_owned() })
    }

    fn draft_path(&self) -> PathBuf {
        self.folder.join(format!("drafts/{}-{}", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)))
    }

    /// A new draft.
    pub(crate) fn draft(&self) -> io::Result<Draft> {
        let path = self.draft_path();
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Draft { file: tokio::fs::File::from_std(file), path })
    }

    /// Files of two formats are apart: each was looked into as what it is served as.
    fn path(&self, format: Format, hash: &FileHash) -> PathBuf {
        self.folder.join(format!("files/{}-{}-{}", format.word(), hash.algorithm().word(), hash.digits()))
    }

    /// Keeps a draft that was checked, under its SHA-256 and, for who asks by another, under the others.
    pub(crate) fn admit(&self, draft: &Draft, format: Format, digests: &Digests) -> io::Result<()> {
        let path = self.path(format, digests.of_algorithm(Algorithm::Sha256));
        fs::rename(&draft.path, &path)?;
        for hash in digests.each().into_iter().filter(|hash| hash.algorithm() != Algorithm::Sha256) {
            let other = self.path(format, hash);
            remove(&other)?;
            match fs::hard_link(&path, &other) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// The kept file that has all of these hashes. One that only claims to is removed.
    pub(crate) fn find(&self, format: Format, hashes: &[FileHash]) -> io::Result<Option<Verified>> {
        let Some(strongest) = hashes.iter().max_by_key(|hash| hash.algorithm()) else { return Ok(None) };
        let path = self.path(format, strongest);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let digests = Digests::of(&file)?;
        if !digests.has_all(hashes) {
            remove(&path)?;
            return Ok(None);
        }
        // Room is made by what was used least lately.
        file.set_modified(SystemTime::now())?;
        file.rewind()?;
        Ok(Some(Verified { file, digests }))
    }

    /// Removes what was used least lately, until the rest is not more than this. A file that is being served stays whole for who has it open.
    pub(crate) fn make_room(&self, most_bytes: u64) -> io::Result<()> {
        let mut kept = BTreeMap::<(SystemTime, u64), Kept>::new();
        for folder in ["files", "pages"] {
            for entry in fs::read_dir(self.folder.join(folder))? {
                let path = entry?.path();
                // Another run may have removed it already.
                let Ok(metadata) = path.symlink_metadata() else { continue };
                let one = kept.entry((metadata.modified()?, metadata.ino())).or_default();
                one.bytes = metadata.len();
                one.paths.push(path);
            }
        }
        let mut bytes: u64 = kept.values().map(|one| one.bytes).sum();
        for oldest in kept.into_values() {
            if bytes <= most_bytes {
                break;
            }
            oldest.paths.iter().try_for_each(|path| remove(path))?;
            bytes = bytes.saturating_sub(oldest.bytes);
        }
        Ok(())
    }

    fn page_path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("pages/{}", hexadecimal(&sha2::Sha256::digest(key))))
    }

    /// What was last said in answer to `key`, and when, in milliseconds since 1970.
    pub(crate) fn page(&self, key: &str) -> Option<(Page, u64)> {
        let mut text = Vec::new();
        File::open(self.page_path(key)).ok()?.read_to_end(&mut text).ok()?;
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let head: PageHead = serde_json::from_slice(&text[..end]).ok()?;
        let body = text.split_off(end + 1);
        (head.key == hexadecimal(&sha2::Sha256::digest(key)))
            .then_some((Page { url: head.url.parse().ok()?, content_type: head.content_type, body }, head.fetched_at_ms))
    }

    /// Keeps what was said.
    pub(crate) fn keep_page(&self, key: &str, page: &Page, fetched_at_ms: u64) -> io::Result<()> {
        let digits = hexadecimal(&sha2::Sha256::digest(key));
        let head = PageHead { key: digits, url: page.url.to_string(), content_type: page.content_type.clone(), fetched_at_ms };
        let draft = self.draft_path();
        let mut file = File::options().write(true).create_new(true).open(&draft)?;
        serde_json::to_writer(&mut file, &head)?;
        file.write_all(b"\n")?;
        file.write_all(&page.body)?;
        fs::rename(&draft, self.page_path(key))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
