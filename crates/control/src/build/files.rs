//! Pinned files, wherever they come from. Who fetches is not believed: a file is taken for what its digest says.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ringfence_evidence::Digest;
use ringfence_policy::ImageDigest;
use sha2::Digest as _;

/// Gets pinned files.
pub(super) trait Fetch {
    /// The file of this content; `None` if it is not to be had.
    fn fetch(&self, name: &str, version: &str, sha256: &ImageDigest) -> Option<PathBuf>;
}

/// The files of one folder, by their content.
#[derive(Debug)]
pub(super) struct Folder(BTreeMap<String, PathBuf>);

impl Folder {
    /// Reads every file of the folder.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if fs::metadata(&path)?.is_file() {
                files.insert(digest(&path)?, path);
            }
        }
        Ok(Self(files))
    }
}

impl Fetch for Folder {
    /// Names are left to whoever reads the file.
    fn fetch(&self, _: &str, _: &str, sha256: &ImageDigest) -> Option<PathBuf> {
        self.0.get(sha256.as_str()).cloned()
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut digest, mut piece) = (File::open(path)?, sha2::Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Digest::from_bytes(digest.finalize().into()).to_string()),
            read => digest.update(&piece[..read]),
        }
    }
}
