//! The images of one home: found, listed and removed. An image is a folder named by its digest, which never changes once it stands there; a run holds
//! a shared lock on it, and whoever removes it an exclusive one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_policy::{ImageDigest, ImageName, ImageTag};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::draft::Draft;
use crate::error::{At, ImageError};
use crate::names::Names;

/// The images of one home.
#[derive(Debug)]
pub struct Images {
    pub(crate) folder: PathBuf,
    pub(crate) names: Names,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its digest: of its manifest, or of its archive where it has none.
    pub digest: ImageDigest,
    /// What it is laid over; it is a whole root otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<ImageName>,
    /// When it was made, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Files, links and folders.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Devices, pipes and other things that were left out.
    pub left_out: u64,
    /// Variables that it sets.
    pub environment: BTreeMap<String, String>,
}

/// An image with its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The names that stand for it.
    pub names: Vec<ImageTag>,
    /// What is known of it.
    #[serde(flatten)]
    pub facts: Facts,
}

/// An image that stays as long as this value lives.
#[derive(Debug)]
pub struct Held {
    /// What is known of it.
    pub facts: Facts,
    /// The folder that becomes `/`.
    pub root: PathBuf,
    _lock: File,
}

pub(crate) const FACTS: &str = "image.json";
pub(crate) const ROOT: &str = "root";

impl Images {
    /// The images in a folder.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), names: Names::of(folder) }
    }

    /// Finds an image and holds it. A digest that is named is used whatever its tag stands for by now, and nothing else is.
    pub fn find(&self, name: &ImageName) -> Result<Held, ImageError> {
        let absent = || ImageError::Absent(name.clone());
        let stands_for = name.tag().map(|tag| self.names.get(tag)).transpose()?.flatten();
        let digest = name.digest().cloned().or(stands_for.clone()).ok_or_else(absent)?;
        match (self.hold(&digest, FlockOperation::NonBlockingLockShared)?, name, stands_for) {
            (Some(held), _, _) => Ok(held),
            (None, ImageName::Pinned(tag, wanted), Some(now)) if now != *wanted => {
                Err(ImageError::Moved { tag: tag.clone(), wanted: wanted.clone(), now })
            }
            (None, _, _) => Err(absent()),
        }
    }

    /// Every image with its names, by digest.
    pub fn list(&self) -> Result<Vec<Listed>, ImageError> {
        let names = self.names.all()?;
        let mut listed = Vec::new();
        for digest in self.digests()? {
            let named = names.iter().filter(|(_, to)| *to == digest).map(|(tag, _)| tag.clone()).collect();
            // One that is just being removed is gone.
            if let Some(facts) = self.facts(&digest)? {
                listed.push(Listed { names: named, facts });
            }
        }
        Ok(listed)
    }

    /// Removes a name, and the image with the last of its names; by a digest the image with all of them. Answers with the digest if it went.
    pub fn remove(&self, name: &ImageName) -> Result<Option<ImageDigest>, ImageError> {
        let absent = || ImageError::Absent(name.clone());
        let stands_for = name.tag().map(|tag| self.names.get(tag)).transpose()?.flatten();
        let digest = match name {
            ImageName::Host => return Err(ImageError::Unfit("the host's own image cannot be removed".into())),
            ImageName::Tagged(_) => stands_for.ok_or_else(absent)?,
            ImageName::Digest(digest) => digest.clone(),
            ImageName::Pinned(_, digest) => stands_for.filter(|to| to == digest).ok_or_else(absent)?,
        };
        let all = self.names.all()?.into_iter().filter(|(_, to)| *to == digest).map(|(tag, _)| tag);
        let (going, staying): (Vec<ImageTag>, Vec<ImageTag>) = all.partition(|tag| name.tag().is_none_or(|named| named == tag));
        if !staying.is_empty() {
            return going.iter().try_for_each(|tag| self.names.remove(tag)).map(|()| None);
        }
        if let Some(of) = self.list()?.into_iter().find(|listed| listed.facts.base.as_ref().and_then(ImageName::digest) == Some(&digest)) {
            return Err(ImageError::Base { digest, of: of.facts.digest });
        }
        // Names go last: an image without one could not be removed by it again.
        let is_gone = self.remove_image(&digest)?;
        going.iter().try_for_each(|tag| self.names.remove(tag))?;
        if is_gone || !going.is_empty() { Ok(Some(digest)) } else { Err(absent()) }
    }

    /// It disappears at once, and is then taken down.
    fn remove_image(&self, digest: &ImageDigest) -> Result<bool, ImageError> {
        let Some(held) = self.hold(digest, FlockOperation::NonBlockingLockExclusive)? else { return Ok(false) };
        let (draft, kept) = (Draft::new(&self.folder)?, self.path(digest));
        fs::rename(&kept, draft.path().join("image")).at("remove", &kept)?;
        fs::remove_dir_all(draft.path()).at("remove", draft.path())?;
        drop(held);
        Ok(true)
    }

    /// Locks an image; `None` if it is not there, or is just being removed.
    fn hold(&self, digest: &ImageDigest, lock: FlockOperation) -> Result<Option<Held>, ImageError> {
        let path = self.path(digest);
        let folder = match File::open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.at("open", &path)?,
        };
        match (flock(&folder, lock), lock) {
            (Ok(()), _) => {}
            (Err(Errno::WOULDBLOCK), FlockOperation::NonBlockingLockExclusive) => return Err(ImageError::InUse(digest.to_string())),
            (Err(Errno::WOULDBLOCK), _) => return Ok(None),
            (Err(errno), _) => return Err(errno).at("lock", &path),
        }
        // Between opening and locking it may have been removed, and even imported again.
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let is_there = fs::metadata(&path).map(identity).ok() == folder.metadata().map(identity).ok();
        match self.facts(digest)? {
            Some(facts) if is_there => Ok(Some(Held { facts, root: path.join(ROOT), _lock: folder })),
            Some(_) | None => Ok(None),
        }
    }

    fn facts(&self, digest: &ImageDigest) -> Result<Option<Facts>, ImageError> {
        let path = self.path(digest).join(FACTS);
        match fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => crate::manifest::read("what is known of the image", &read.at("read", &path)?).map(Some),
        }
    }

    fn digests(&self) -> Result<Vec<ImageDigest>, ImageError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at("list", &self.folder)?,
        };
        let digest_of = |name: &str| name.strip_prefix("sha256-").and_then(|hex| format!("sha256:{hex}").parse().ok());
        let mut digests: Vec<ImageDigest> = entries.flatten().filter_map(|entry| digest_of(entry.file_name().to_str()?)).collect();
        digests.sort();
        Ok(digests)
    }

    pub(crate) fn path(&self, digest: &ImageDigest) -> PathBuf {
        self.folder.join(format!("sha256-{}", digest.hex()))
    }
}
