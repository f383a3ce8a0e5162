//! Why an image was not imported, found or removed.

use std::io;
use std::path::{Path, PathBuf};

use ringfence_policy::{ImageDigest, ImageName, ImageTag};

/// What went wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file or folder could not be used.
    #[error("{act} `{path}`: {source}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// An entry of an archive is refused, and with it the whole image.
    #[error("entry `{path}` {cause}")]
    Entry {
        /// Its path, with odd bytes escaped.
        path: String,
        /// Why.
        cause: String,
    },
    /// The image is too large.
    #[error("the image has more than {most} {what}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The most.
        most: u64,
    },
    /// Something is not what its digest or its format says.
    #[error("{what} is damaged: {cause}")]
    Damaged {
        /// What.
        what: String,
        /// How that is known.
        cause: String,
    },
    /// The source is something else.
    #[error("`{path}` holds no image: {cause}")]
    NotAnImage {
        /// The source.
        path: PathBuf,
        /// What it is.
        cause: String,
    },
    /// There is no manifest for this machine, or more than one.
    #[error("the index names {found} images for {architecture}, not one")]
    Choice {
        /// The machine.
        architecture: String,
        /// How many there are.
        found: usize,
    },
    /// Its root cannot be used.
    #[error("the image cannot be seen as `/`: {0}")]
    Unfit(String),
    /// Nothing goes by this name.
    #[error("there is no image `{0}` here")]
    Absent(ImageName),
    /// The name stands for something else by now.
    #[error("image `{tag}` has moved: it is {now} now, and {wanted} is not here")]
    Moved {
        /// The name.
        tag: ImageTag,
        /// What was asked for.
        wanted: ImageDigest,
        /// What it stands for.
        now: ImageDigest,
    },
    /// Another image is laid over it.
    #[error("image {digest} is the base of {of}")]
    Base {
        /// The image.
        digest: ImageDigest,
        /// The other one.
        of: ImageDigest,
    },
    /// A run has it.
    #[error("image `{0}` is in use by a run")]
    InUse(String),
}

impl ImageError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => "look at the file named above".into(),
            Self::Entry { .. } => "nothing of the image was kept; ask whoever made it for one without such an entry".into(),
            Self::TooMuch { .. } => "nothing of the image was kept; use a smaller image".into(),
            Self::Damaged { .. } => "fetch the image again from where it came".into(),
            Self::NotAnImage { .. } => {
                "name the folder of an OCI layout, an archive of one (also of `docker save`), or a tar of a root file system; gzip and zstd are read".into()
            }
            Self::Choice { .. } => "name an image that was made for this machine, or the digest of one".into(),
            Self::Unfit(_) => "use an image with an ordinary root file system".into(),
            Self::Absent(name) => match name.tag() {
                Some(tag) => format!("`ringfence image ls` lists those that there are; add it with `ringfence image import SOURCE --name {tag}`"),
                None => "`ringfence image ls` lists those that there are; add it with `ringfence image import SOURCE`".into(),
            },
            Self::Moved { wanted, .. } => format!("import {wanted} again, or name the digest that is meant in the profile or ceiling"),
            Self::Base { of, .. } => format!("remove {of} before"),
            Self::InUse(_) => "wait until its runs have ended".into(),
        }
    }

    pub(crate) fn damaged(what: impl Into<String>, cause: impl ToString) -> Self {
        Self::Damaged { what: what.into(), cause: cause.to_string() }
    }

    pub(crate) fn entry(path: &[u8], cause: impl Into<String>) -> Self {
        Self::Entry { path: shown(path), cause: cause.into() }
    }
}

/// Bytes from a stranger, for a person.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Names the act and the path of an I/O error.
pub(crate) trait At<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T, ImageError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, act: &'static str, path: &Path) -> Result<T, ImageError> {
        self.map_err(|source| ImageError::Io { act, path: path.to_owned(), source: source.into() })
    }
}
