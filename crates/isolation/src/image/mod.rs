//! What is seen as `/`: a root, what is mounted in it, and what of it may be executed. It is the host's own `/usr` under a generated root, or a root that
//! was imported. Either is shown read-only and by the same union, so that no path of the host stands in the mount table.

mod host;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use host::hex;

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The folder that becomes `/`.
    pub root: PathBuf,
    /// What is mounted in it: name below `/`, and the host's folder.
    pub trees: Vec<(String, PathBuf)>,
    /// Identity: of an imported image the digest of its manifest; of the host's one of the root's content, of the package database and of the
    /// operating system's release.
    pub digest: String,
    /// Folders in `/` from which programs are read and executed.
    pub folders: Vec<String>,
    /// Files in `/` of which the same is true.
    pub files: Vec<String>,
    /// Variables that the image sets.
    pub environment: Vec<(String, String)>,
}

/// Folders that are the sandbox's own in every image, and `/etc`, which holds no programs.
const OWN: &[&str] = &["proc", "dev", "sys", "tmp", "inputs", "workspace", "run", "etc"];

/// Names in `/`. Each is a rule over paths, and no honest image has that many.
const MOST_NAMES: usize = 256;

impl Image {
    /// The host's image: finds the kept root below `folder`, or makes it.
    pub fn of_host(folder: &Path) -> io::Result<Self> {
        host::prepare(folder)
    }

    /// A root that was imported, with what is known of it.
    pub fn imported(root: &Path, digest: &str, environment: Vec<(String, String)>) -> io::Result<Self> {
        let mut image = Self {
            root: root.to_owned(),
            trees: Vec::new(),
            digest: digest.to_owned(),
            folders: Vec::new(),
            files: Vec::new(),
            environment,
        };
        let names = image.top()?;
        if names.len() > MOST_NAMES {
            return Err(io::Error::other(format!("the image has {} names in `/`, more than {MOST_NAMES}", names.len())));
        }
        for name in names.into_iter().filter(|name| !OWN.contains(&name.as_str())) {
            match fs::symlink_metadata(root.join(&name)) {
                Ok(meta) if meta.is_dir() => image.folders.push(name),
                Ok(meta) if meta.is_file() => image.files.push(name),
                // What a link leads to has a rule of its own. A name that is not UTF-8 is listed, and not opened.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(image)
    }

    /// The names in its root.
    pub fn top(&self) -> io::Result<BTreeSet<String>> {
        let names = fs::read_dir(&self.root)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }
}
