//! The images of a home: which of them a run sees, held until the run is over, and how they come and go.

use std::io;
use std::path::Path;

use ringfence_egress::registry::RegistryError;
use ringfence_evidence::Digest;
use ringfence_image::{Caps, Facts, Held, ImageError, Images, Listed};
use ringfence_isolation::Image;
use ringfence_policy::{Capabilities, ImageDigest, ImageName, ImageTag, Refusal, Set};
use ringfence_store::{Home, StoreError};

use crate::ending::host_refusal;
use crate::pull::{ImageSource, pull};
use crate::request::Progress;

/// Why an image could not be imported, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// What a killed import left could not be taken away.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The image itself.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl ImagesError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Store(error) => error.hint(),
            Self::Image(error) => error.hint(),
            Self::Registry(error) => error.hint().to_owned(),
        }
    }
}

/// Imports an image; a name that is given stands for it from then on. A credential for a registry is looked for in the usual client's `configuration`.
pub fn import_image(
    home: &Home,
    source: &ImageSource,
    configuration: Option<&Path>,
    name: Option<&ImageTag>,
    progress: &mut dyn Progress,
) -> Result<Facts, ImagesError> {
    home.sweep()?;
    match source {
        ImageSource::Path(path) => {
            Ok(Images::of(&home.images()).import(path, name, Caps::default(), &mut |what, done| progress.tell(what, done))?)
        }
        ImageSource::Registry(place) => {
            let configuration = configuration.and_then(|path| std::fs::read_to_string(path).ok());
            pull(home, place, configuration.as_deref(), name, progress)
        }
    }
}

/// Every imported image.
pub fn images(home: &Home) -> Result<Vec<Listed>, ImagesError> {
    Ok(Images::of(&home.images()).list()?)
}

/// Removes a name, and the image with the last of its names: then the answer is its digest.
pub fn remove_image(home: &Home, name: &ImageName) -> Result<Option<ImageDigest>, ImagesError> {
    home.sweep()?;
    Ok(Images::of(&home.images()).remove(name)?)
}

/// An image that is shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) image: Image,
    /// The name as it was granted; `None` for the host's.
    pub(crate) name: Option<ImageName>,
    /// Nobody removes it, or what it is laid over, meanwhile.
    _held: Vec<Held>,
}

impl Shown {
    /// For people: which image this is, exactly.
    pub(crate) fn in_words(&self) -> String {
        match &self.name {
            Some(name) if name.digest().is_some() => name.to_string(),
            Some(name) => format!("{name}@{}", self.image.digest),
            None => format!("host, {}", self.image.digest),
        }
    }
}

/// Why there is no image.
#[derive(Debug)]
pub(crate) enum NoImage {
    /// What was granted is not here.
    Refused(Refusal),
    /// It is, and could not be used.
    Failed(io::Error),
}

/// Finds what was granted. Policy has seen to it that this is one image.
pub(crate) fn find(home: &Home, capabilities: &Capabilities) -> Result<Shown, NoImage> {
    find_named(home, granted(capabilities).unwrap_or(&ImageName::Host))
}

/// Finds an image by its name.
pub(crate) fn find_named(home: &Home, name: &ImageName) -> Result<Shown, NoImage> {
    match name {
        ImageName::Host => {
            let image = Image::of_host(&home.images()).map_err(NoImage::Failed)?;
            Ok(Shown { image, name: None, _held: Vec::new() })
        }
        ImageName::Tagged(_) | ImageName::Digest(_) | ImageName::Pinned(..) => imported(home, name),
    }
}

/// Whether it is here, before anything is granted.
pub(crate) fn check(home: &Home, capabilities: &Capabilities) -> Result<(), Refusal> {
    match granted(capabilities) {
        Some(ImageName::Host) | None => Ok(()),
        Some(name) => Images::of(&home.images()).find(name).map(drop).map_err(refusal),
    }
}

fn imported(home: &Home, name: &ImageName) -> Result<Shown, NoImage> {
    let (image, held) = show(home, name)?;
    let digest = held.first().map(|held| held.facts.digest.clone()).filter(|_| name.digest().is_none());
    // What is over the host's image changes with the host: its own digest is said beside.
    let name = match (name.tag().cloned(), digest) {
        (Some(tag), Some(digest)) if digest.as_str() != image.digest => ImageName::Pinned(tag, digest),
        (Some(_), _) | (None, _) => name.clone(),
    };
    Ok(Shown { image, name: Some(name), _held: held })
}

/// An image with what it is laid over, down to a whole root or to the host's.
fn show(home: &Home, name: &ImageName) -> Result<(Image, Vec<Held>), NoImage> {
    let held = Images::of(&home.images()).find(name).map_err(|error| NoImage::Refused(refusal(error)))?;
    let environment = held.facts.environment.clone().into_iter().collect();
    let digest = held.facts.digest.as_str();
    let (base, mut beneath) = match &held.facts.base {
        None => return Ok((Image::imported(&held.root, digest, environment).map_err(NoImage::Failed)?, vec![held])),
        Some(ImageName::Host) => (Image::of_host(&home.images()).map_err(NoImage::Failed)?, Vec::new()),
        Some(base) => show(home, base)?,
    };
    let digest = match held.facts.base {
        Some(ImageName::Host) => Digest::of(format!("{digest}\n{}\n", base.digest).as_bytes()).to_string(),
        Some(_) | None => digest.to_owned(),
    };
    let image = base.beneath(&held.root, &digest, environment).map_err(NoImage::Failed)?;
    beneath.insert(0, held);
    Ok((image, beneath))
}

fn granted(capabilities: &Capabilities) -> Option<&ImageName> {
    match &capabilities.image {
        Set::Only(images) => images.first(),
        Set::All => None,
    }
}

/// A tag that has moved or was removed is refused: what was meant is not here, and something else is not it.
fn refusal(error: ImageError) -> Refusal {
    host_refusal(error.to_string(), error.hint())
}
