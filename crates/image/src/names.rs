//! Which digest a name stands for: one small file a name, replaced as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_policy::{ImageDigest, ImageTag};

use crate::draft::Draft;
use crate::error::{At, ImageError};

/// The names of one home's images.
#[derive(Debug)]
pub(crate) struct Names {
    images: PathBuf,
}

impl Names {
    pub(crate) fn of(images: &Path) -> Self {
        Self { images: images.to_owned() }
    }

    /// What a name stands for.
    pub(crate) fn get(&self, tag: &ImageTag) -> Result<Option<ImageDigest>, ImageError> {
        let path = self.path(tag);
        match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            read => {
                let text = read.at("read", &path)?;
                text.trim().parse().map(Some).map_err(|error| ImageError::damaged(format!("`{}`", path.display()), error))
            }
        }
    }

    /// Lets a name stand for a digest from now on.
    pub(crate) fn set(&self, tag: &ImageTag, digest: &ImageDigest) -> Result<(), ImageError> {
        let (draft, path) = (Draft::new(&self.images)?, self.path(tag));
        let written = draft.path().join("name");
        fs::create_dir_all(self.folder()).at("make", &self.folder())?;
        fs::write(&written, format!("{digest}\n")).at("write", &written)?;
        fs::File::open(&written).and_then(|file| file.sync_all()).at("write", &written)?;
        fs::rename(&written, &path).at("write", &path)
    }

    /// Forgets a name.
    pub(crate) fn remove(&self, tag: &ImageTag) -> Result<(), ImageError> {
        let path = self.path(tag);
        match fs::remove_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at("remove", &path),
        }
    }

    /// Every name with what it stands for, in order.
    pub(crate) fn all(&self) -> Result<Vec<(ImageTag, ImageDigest)>, ImageError> {
        let entries = match fs::read_dir(self.folder()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at("list", &self.folder())?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().and_then(|name| name.replace('+', "/").parse().ok()));
        let mut tags: Vec<ImageTag> = names.collect();
        tags.sort();
        let found = tags.into_iter().map(|tag| Ok(self.get(&tag)?.map(|digest| (tag, digest))));
        found.filter_map(Result::transpose).collect()
    }

    fn folder(&self) -> PathBuf {
        self.images.join("names")
    }

    /// INVARIANT (plain tag): no name holds a `+`, so this is a file name and can be read back.
    fn path(&self, tag: &ImageTag) -> PathBuf {
        self.folder().join(tag.to_string().replace('/', "+"))
    }
}
