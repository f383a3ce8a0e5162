//! A folder that holds an image in parts: an OCI layout, or what `docker save` writes. Nothing in it is believed: every document and every layer is
//! what its digest says, or the image is refused. A link in the folder is followed only as long as it stays in it.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_policy::ImageDigest;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::caps::Caps;
use crate::error::{At, ImageError};
use crate::layer::Layer;
use crate::manifest::{Config, Descriptor, DockerImage, Document, architecture, choose, read};
use crate::measured::{Measured, digest_of};

/// Indexes within indexes.
pub(crate) const MOST_INDEXES: usize = 4;

/// A folder with the parts of an image.
#[derive(Debug)]
pub(crate) struct Layout {
    root: OwnedFd,
    path: PathBuf,
    caps: Caps,
}

/// An image in parts, each of them checked.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) digest: ImageDigest,
    pub(crate) config: Config,
    pub(crate) layers: Vec<Layer>,
}

impl Layout {
    /// Opens a folder; `None` if it is not of either form.
    pub(crate) fn open(path: &Path, caps: Caps) -> Result<Option<Self>, ImageError> {
        let root = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).at("open", path)?;
        let layout = Self { root, path: path.to_owned(), caps };
        let is_file = |name: &str| layout.file(name).is_ok();
        let is_root = ["etc", "usr", "bin"].iter().any(|name| path.join(name).exists());
        Ok((is_file(OCI_MARK) && is_file(INDEX) || is_file(DOCKER) && !is_root).then_some(layout))
    }

    /// The image for this machine. Its digest is that of its manifest; `docker save` without an index has none, and there it is that of the
    /// configuration, which names the layers by theirs.
    pub(crate) fn parts(&self) -> Result<Parts, ImageError> {
        let parts = if self.file(INDEX).is_ok() { self.oci() } else { self.docker() }?;
        parts.config.check_machine(architecture())?;
        match parts.layers.len() > self.caps.layers {
            true => Err(ImageError::TooMuch { what: "layers", most: self.caps.layers as u64 }),
            false => Ok(parts),
        }
    }

    fn oci(&self) -> Result<Parts, ImageError> {
        let mut bytes = self.document(self.file(INDEX)?, INDEX)?;
        for _ in 0..MOST_INDEXES {
            let index: Document = read(INDEX, &bytes)?;
            let manifests = index.manifests.ok_or_else(|| ImageError::damaged("the index", "it names no manifests"))?;
            let chosen = choose(&manifests, architecture())?;
            bytes = self.checked_document(chosen, "the manifest")?;
            let document: Document = read("the manifest", &bytes)?;
            if let (Some(config), Some(layers)) = (document.config, document.layers) {
                return self.of_manifest(chosen.digest.clone(), &config, &layers);
            }
        }
        Err(ImageError::damaged("the index", "it names indexes without end"))
    }

    fn of_manifest(&self, digest: ImageDigest, config: &Descriptor, layers: &[Descriptor]) -> Result<Parts, ImageError> {
        let config: Config = read("the configuration", &self.checked_document(config, "the configuration")?)?;
        let files = layers.iter().take(self.caps.layers + 1).map(|layer| self.checked_blob(layer));
        let layers = name_layers(&config, files.collect::<Result<_, _>>()?)?;
        Ok(Parts { digest, config, layers })
    }

    fn docker(&self) -> Result<Parts, ImageError> {
        let bytes = self.document(self.file(DOCKER)?, DOCKER)?;
        let images: Vec<DockerImage> = read(DOCKER, &bytes)?;
        let [image] = images.as_slice() else {
            return Err(ImageError::NotAnImage { path: self.path.clone(), cause: format!("it holds {} images, not one", images.len()) });
        };
        let bytes = self.document(self.file(&image.config)?, "the configuration")?;
        let config: Config = read("the configuration", &bytes)?;
        let files = image.layers.iter().take(self.caps.layers + 1).map(|name| self.file(name)).collect::<Result<_, _>>()?;
        let layers = name_layers(&config, files)?;
        Ok(Parts { digest: digest_of(&bytes), config, layers })
    }

    /// A regular file of the folder.
    fn file(&self, name: &str) -> Result<File, ImageError> {
        let path = self.path.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = File::from(openat2(&self.root, name, flags, Mode::empty(), resolve).at("open", &path)?);
        match file.metadata().at("look at", &path)?.is_file() {
            true => Ok(file),
            false => Err(ImageError::damaged(format!("`{}`", path.display()), "it is not a file")),
        }
    }

    fn blob(&self, described: &Descriptor) -> Result<File, ImageError> {
        let name = format!("blobs/sha256/{}", described.digest.hex());
        let file = self.file(&name)?;
        let length = file.metadata().at("look at", &self.path.join(&name))?.len();
        match length == described.size {
            true => Ok(file),
            false => Err(ImageError::damaged(described.digest.as_str(), format!("it has {length} bytes, not {}", described.size))),
        }
    }

    /// A layer of which every byte was read.
    fn checked_blob(&self, described: &Descriptor) -> Result<File, ImageError> {
        let mut file = self.blob(described)?;
        let measured = Measured::new(&file, described.size, described.size).finish();
        let (_, digest) = measured.map_err(|error| ImageError::damaged(described.digest.as_str(), error))?;
        file.rewind().at("read", &self.path)?;
        match digest == described.digest {
            true => Ok(file),
            false => Err(ImageError::damaged(described.digest.as_str(), format!("its bytes have the digest {digest}"))),
        }
    }

    fn checked_document(&self, described: &Descriptor, what: &str) -> Result<Vec<u8>, ImageError> {
        let bytes = self.document(self.blob(described)?, what)?;
        match digest_of(&bytes) {
            digest if digest == described.digest => Ok(bytes),
            digest => Err(ImageError::damaged(what, format!("its bytes have the digest {digest}, not {}", described.digest))),
        }
    }

    fn document(&self, file: File, what: &str) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        file.take(self.caps.document + 1).read_to_end(&mut bytes).at("read", &self.path)?;
        match bytes.len() as u64 > self.caps.document {
            true => Err(ImageError::damaged(what, format!("it is longer than {} bytes", self.caps.document))),
            false => Ok(bytes),
        }
    }
}

const OCI_MARK: &str = "oci-layout";
const INDEX: &str = "index.json";
const DOCKER: &str = "manifest.json";

/// The configuration vouches for the content of each layer.
fn name_layers(config: &Config, files: Vec<File>) -> Result<Vec<Layer>, ImageError> {
    let diff_ids = &config.rootfs.diff_ids;
    if diff_ids.len() != files.len() {
        let cause = format!("it has {} layers, and the configuration names {}", files.len(), diff_ids.len());
        return Err(ImageError::damaged("the image", cause));
    }
    let named = files.into_iter().zip(diff_ids).enumerate();
    Ok(named.map(|(at, (file, diff))| Layer { name: format!("layer {}", at + 1), file, content: Some(diff.clone()) }).collect())
}
