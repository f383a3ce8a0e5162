//! Images from a registry: the one place where what fetches and what keeps meet.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_egress::registry::{Credential, Place, PlaceError, Registry, RegistryError};
use ringfence_image::{Caps, Facts, FetchError, Images, Origin};
use ringfence_policy::{ImageDigest, ImageTag};
use ringfence_store::Home;

use crate::images::ImagesError;
use crate::request::Progress;

/// Where an image is imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// A file or folder.
    Path(PathBuf),
    /// A registry.
    Registry(Place),
}

impl FromStr for ImageSource {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        match text.starts_with(Place::SCHEME) {
            true => text.parse().map(Self::Registry),
            false => Ok(Self::Path(text.into())),
        }
    }
}

impl ImageSource {
    /// The name under which an image is kept where the caller gives none: that in its registry, if it is one that images can have here.
    pub fn own_name(&self) -> Option<ImageTag> {
        match self {
            Self::Path(_) => None,
            Self::Registry(place) => format!("{}:{}", place.name(), place.tag()?).parse().ok(),
        }
    }
}

/// Fetches what a registry has and imports it. `configuration` is the text of the usual client's file, in which a credential may stand.
pub(crate) fn pull(
    home: &Home,
    place: &Place,
    configuration: Option<&str>,
    name: Option<&ImageTag>,
    progress: &mut dyn Progress,
) -> Result<Facts, ImagesError> {
    let credential = configuration.and_then(|text| Credential::find(text, place.host()));
    let mut origin = FromRegistry(Registry::new(place.clone(), credential)?);
    let fetched =
        Images::of(&home.images()).fetch(&mut origin, place.digest(), name, Caps::default(), &mut |what, done| progress.tell(what, done));
    fetched.map_err(|error| match error {
        FetchError::Image(error) => error.into(),
        FetchError::Origin(error) => error.into(),
    })
}

struct FromRegistry(Registry);

impl Origin for FromRegistry {
    type Error = RegistryError;

    fn manifest(&mut self, digest: Option<&ImageDigest>, most: u64) -> Result<Vec<u8>, RegistryError> {
        self.0.manifest(digest, most)
    }

    fn blob(&mut self, digest: &ImageDigest, bytes: u64, to: &mut dyn Write) -> Result<(), RegistryError> {
        self.0.blob(digest, bytes, to)
    }
}
