//! Fetches an image that is elsewhere, part by part, into a layout from which it is imported like any other. Which parts are wanted is decided here; how they
//! come is somebody else's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use ringfence_policy::{ImageDigest, ImageTag};
use serde_json::json;

use crate::caps::Caps;
use crate::draft::Draft;
use crate::error::{At, ImageError};
use crate::import::Tell;
use crate::layout::MOST_INDEXES;
use crate::manifest::{Descriptor, Document, architecture, choose, read};
use crate::measured::digest_of;
use crate::store::{Facts, Images};

/// Where the parts of one image come from. Nothing that it hands out is believed.
pub trait Origin {
    /// What is fetched from it can fail in its own ways.
    type Error;

    /// The manifest or index that was asked for, or one by its digest; at most so many bytes.
    fn manifest(&mut self, digest: Option<&ImageDigest>, most: u64) -> Result<Vec<u8>, Self::Error>;

    /// Writes a blob of so many bytes.
    fn blob(&mut self, digest: &ImageDigest, bytes: u64, to: &mut dyn Write) -> Result<(), Self::Error>;
}

/// Why an image could not be fetched.
#[derive(Debug)]
pub enum FetchError<E> {
    /// The image itself.
    Image(ImageError),
    /// Its origin.
    Origin(E),
}

impl<E> From<ImageError> for FetchError<E> {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl Images {
    /// Fetches and imports an image; with a digest, exactly that one.
    pub fn fetch<O: Origin>(
        &self,
        origin: &mut O,
        digest: Option<&ImageDigest>,
        name: Option<&ImageTag>,
        caps: Caps,
        tell: Tell<'_>,
    ) -> Result<Facts, FetchError<O::Error>> {
        fs::create_dir_all(&self.folder).at("make", &self.folder)?;
        let draft = Draft::new(&self.folder)?;
        let layout = draft.folder("layout")?;
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).at("make", &blobs)?;
        Fetching { origin, blobs: &blobs, caps }.image(digest, &layout, tell)?;
        Ok(self.import(&layout, name, caps, tell)?)
    }
}

struct Fetching<'a, O> {
    origin: &'a mut O,
    blobs: &'a Path,
    caps: Caps,
}

impl<O: Origin> Fetching<'_, O> {
    /// From the index, if there is one, down to the layers.
    fn image(&mut self, wanted: Option<&ImageDigest>, layout: &Path, tell: Tell<'_>) -> Result<(), FetchError<O::Error>> {
        let (digest, bytes, document) = self.manifest(wanted)?;
        let (Some(config), Some(layers)) = (document.config, document.layers) else {
            return Err(ImageError::damaged("the manifest", "it names no layers").into());
        };
        write(&self.blobs.join(digest.hex()), &bytes)?;
        self.check(&layers)?;
        for (number, described) in std::iter::once(&config).chain(&layers).enumerate() {
            tell("parts fetched", number as u64);
            self.blob(described)?;
        }
        let index = json!({ "schemaVersion": 2, "manifests": [{ "digest": digest, "size": bytes.len() }] });
        write(&layout.join("index.json"), index.to_string().as_bytes())?;
        write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(())
    }

    fn manifest(&mut self, wanted: Option<&ImageDigest>) -> Result<(ImageDigest, Vec<u8>, Document), FetchError<O::Error>> {
        let mut wanted = wanted.cloned();
        for _ in 0..MOST_INDEXES {
            let bytes = self.origin.manifest(wanted.as_ref(), self.caps.document).map_err(FetchError::Origin)?;
            let digest = digest_of(&bytes);
            if let Some(wanted) = wanted.filter(|wanted| *wanted != digest) {
                return Err(ImageError::damaged("the manifest", format!("its bytes have the digest {digest}, not {wanted}")).into());
            }
            let document: Document = read("the manifest", &bytes)?;
            match &document.manifests {
                None => return Ok((digest, bytes, document)),
                Some(manifests) => wanted = Some(choose(manifests, architecture())?.digest.clone()),
            }
        }
        Err(ImageError::damaged("the index", "it names indexes without end").into())
    }

    /// Before anything is fetched.
    fn check(&self, layers: &[Descriptor]) -> Result<(), ImageError> {
        let bytes = layers.iter().try_fold(0u64, |sum, layer| sum.checked_add(layer.size));
        match (layers.len() > self.caps.layers, bytes.is_none_or(|bytes| bytes > self.caps.bytes)) {
            (true, _) => Err(ImageError::TooMuch { what: "layers", most: self.caps.layers as u64 }),
            (false, true) => Err(ImageError::TooMuch { what: "bytes", most: self.caps.bytes }),
            (false, false) => Ok(()),
        }
    }

    /// It is checked when it is imported. One that comes twice is fetched once.
    fn blob(&mut self, described: &Descriptor) -> Result<(), FetchError<O::Error>> {
        let path = self.blobs.join(described.digest.hex());
        let mut file = match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            created => created.at("make", &path)?,
        };
        self.origin.blob(&described.digest, described.size, &mut file).map_err(FetchError::Origin)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
    fs::write(path, bytes).at("write", path)
}
