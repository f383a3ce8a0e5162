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
    /// What is laid over both, the uppermost first.
    pub layers: Vec<Layer>,
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

/// A tree that is laid over an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its folder on the host.
    pub path: PathBuf,
    /// The folders in it.
    pub folders: Vec<String>,
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
        let (folders, files) = in_root(root)?;
        Ok(Self { root: root.to_owned(), trees: Vec::new(), layers: Vec::new(), digest: digest.to_owned(), folders, files, environment })
    }

    /// The same with a tree laid over it, which makes it another image.
    pub fn beneath(mut self, layer: &Path, digest: &str, environment: Vec<(String, String)>) -> io::Result<Self> {
        let (folders, files) = in_root(layer)?;
        let new = |names: &[String], of: &[String]| of.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>();
        self.folders.extend(new(&self.folders, &folders));
        self.files.extend(new(&self.files, &files));
        self.environment.retain(|(name, _)| environment.iter().all(|(set, _)| set != name));
        self.environment.extend(environment);
        self.layers.insert(0, Layer { path: layer.to_owned(), folders });
        Ok(Self { digest: digest.to_owned(), ..self })
    }

    /// The names in its root.
    pub fn top(&self) -> io::Result<BTreeSet<String>> {
        let roots = std::iter::once(&self.root).chain(self.layers.iter().map(|layer| &layer.path));
        roots.map(|root| names(root)).try_fold(BTreeSet::new(), |all, names| Ok(all.into_iter().chain(names?).collect()))
    }
}

fn names(root: &Path) -> io::Result<BTreeSet<String>> {
    fs::read_dir(root)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// The folders and files in a root from which programs may come. What a link leads to has a rule of its own; a name that is not UTF-8 is listed, and
/// not opened.
fn in_root(root: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let names = names(root)?;
    if names.len() > MOST_NAMES {
        return Err(io::Error::other(format!("the image has {} names in `/`, more than {MOST_NAMES}", names.len())));
    }
    let others = names.into_iter().filter(|name| !OWN.contains(&name.as_str()));
    let kinds = others.filter_map(|name| fs::symlink_metadata(root.join(&name)).ok().map(|meta| (name, meta.file_type())));
    let (folders, others): (Vec<_>, Vec<_>) = kinds.partition(|(_, kind)| kind.is_dir());
    let files = others.into_iter().filter(|(_, kind)| kind.is_file());
    Ok((folders.into_iter().map(|(name, _)| name).collect(), files.map(|(name, _)| name).collect()))
}
