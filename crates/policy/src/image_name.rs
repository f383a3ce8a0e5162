//! Which image a run sees as `/`: the host's own, or one that was imported, by its name, its digest or both.
//!
//! A name is a tag that may move to another digest; a digest never moves. Written together (`tools@sha256:…`) they stand for what has both,
//! so that the digest decides and a moved tag is seen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lattice::Element;
use crate::names::text_type;

/// Why the name of an image was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageNameError {
    /// Not a name.
    #[error("`{0}` is not the name of an image; write `host`, `name`, `name:tag`, `sha256:` and 64 digits, or `name:tag@sha256:…`")]
    Name(String),
    /// Not a digest.
    #[error("`{0}` is not a digest; write `sha256:` and 64 lower-case hexadecimal digits")]
    Digest(String),
    /// The host's image is whatever the host has.
    #[error("`{0}`: the host's own image has neither tags nor a digest that could be named; write `host`")]
    Host(String),
}

/// The digest of an image, as its manifest or archive has it.
///
/// INVARIANT (digest): `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageDigest(String);

impl ImageDigest {
    /// The digest with its algorithm.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 64 hexadecimal digits alone.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(ALGORITHM).unwrap_or(&self.0)
    }
}

const ALGORITHM: &str = "sha256:";

impl FromStr for ImageDigest {
    type Err = ImageNameError;

    fn from_str(text: &str) -> Result<Self, ImageNameError> {
        let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        match text.strip_prefix(ALGORITHM).is_some_and(is_hex) {
            true => Ok(Self(text.to_owned())),
            false => Err(ImageNameError::Digest(text.escape_debug().to_string())),
        }
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name with its tag; `latest` where none was written.
///
/// INVARIANT (plain tag): lower-case parts joined by `/` with letters, digits and single `.`, `_`, `-` between them, at most 100 bytes; a tag of at
/// most 100 letters, digits, `.`, `_` and `-` that begins with a letter, digit or `_`. The name is never `host` nor `sha256`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageTag {
    name: String,
    tag: String,
}

/// The most bytes of a name and of a tag: both stand in one file name.
const LONGEST: usize = 100;

impl ImageTag {
    /// The name without its tag.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl FromStr for ImageTag {
    type Err = ImageNameError;

    fn from_str(text: &str) -> Result<Self, ImageNameError> {
        let (name, tag) = text.split_once(':').unwrap_or((text, "latest"));
        let is_tag = |tag: &str| {
            (1..=LONGEST).contains(&tag.len())
                && !tag.starts_with(['.', '-'])
                && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        match (name, name.len() <= LONGEST && name.split('/').all(is_part) && is_tag(tag)) {
            (HOST, true) => Err(ImageNameError::Host(text.escape_debug().to_string())),
            // With a tag it would read as a digest.
            (name, true) if ALGORITHM.strip_suffix(':') == Some(name) => Err(ImageNameError::Name(text.escape_debug().to_string())),
            (name, true) => Ok(Self { name: name.to_owned(), tag: tag.to_owned() }),
            (_, false) => Err(ImageNameError::Name(text.escape_debug().to_string())),
        }
    }
}

/// Letters and digits at both ends, and never two marks in a row: no part is `.` or `..`.
fn is_part(part: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    part.split(['.', '_', '-']).all(is_word)
}

impl fmt::Display for ImageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.tag)
    }
}

/// The word for the host's own image.
const HOST: &str = "host";

/// An image as a bound names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ImageName {
    /// The host's `/usr` under a generated root.
    Host,
    /// Whatever a tag stands for at the time.
    Tagged(ImageTag),
    /// Exactly this, by whatever name.
    Digest(ImageDigest),
    /// Exactly this, known by that tag.
    Pinned(ImageTag, ImageDigest),
}

impl ImageName {
    /// The tag that it names, if it names one.
    pub fn tag(&self) -> Option<&ImageTag> {
        match self {
            Self::Tagged(tag) | Self::Pinned(tag, _) => Some(tag),
            Self::Host | Self::Digest(_) => None,
        }
    }

    /// The digest that it names, if it names one.
    pub fn digest(&self) -> Option<&ImageDigest> {
        match self {
            Self::Digest(digest) | Self::Pinned(_, digest) => Some(digest),
            Self::Host | Self::Tagged(_) => None,
        }
    }
}

impl FromStr for ImageName {
    type Err = ImageNameError;

    fn from_str(text: &str) -> Result<Self, ImageNameError> {
        match (text, text.split_once('@')) {
            (HOST, _) => Ok(Self::Host),
            (_, Some((tag, digest))) => Ok(Self::Pinned(tag.parse()?, digest.parse()?)),
            (digest, None) if digest.starts_with(ALGORITHM) => Ok(Self::Digest(digest.parse()?)),
            (tag, None) => Ok(Self::Tagged(tag.parse()?)),
        }
    }
}

impl Element for ImageName {
    /// A tag and a digest do not contradict each other: together they stand for what has both.
    fn meet(&self, other: &Self) -> Option<Self> {
        if *self == Self::Host || *other == Self::Host {
            return (self == other).then(|| self.clone());
        }
        let tag = agreed(self.tag(), other.tag())?;
        let digest = agreed(self.digest(), other.digest())?;
        match (tag.cloned(), digest.cloned()) {
            (Some(tag), Some(digest)) => Some(Self::Pinned(tag, digest)),
            (Some(tag), None) => Some(Self::Tagged(tag)),
            (None, Some(digest)) => Some(Self::Digest(digest)),
            (None, None) => None, // only the host's names neither
        }
    }
}

/// What one or both say; `None` where they say different things.
fn agreed<'a, T: PartialEq>(one: Option<&'a T>, other: Option<&'a T>) -> Option<Option<&'a T>> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => None,
        (one, other) => Some(one.or(other)),
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str(HOST),
            Self::Tagged(tag) => write!(f, "{tag}"),
            Self::Digest(digest) => write!(f, "{digest}"),
            Self::Pinned(tag, digest) => write!(f, "{tag}@{digest}"),
        }
    }
}

text_type!(ImageDigest: ImageNameError, ImageTag: ImageNameError, ImageName: ImageNameError);

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
    const TWO: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

    fn read(text: &str) -> ImageName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_without_a_tag_means_latest_and_prints_so() {
        assert_eq!(read("team/tools").to_string(), "team/tools:latest");
        assert_eq!(read(&format!("tools:3.1@{ONE}")).to_string(), format!("tools:3.1@{ONE}"));
        assert_eq!(read("host"), ImageName::Host);
    }

    #[test]
    fn what_could_be_a_path_or_another_place_is_no_name() {
        for bad in [
            "",
            "..",
            "a/../b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a:",
            "a:.b",
            "A",
            "a b",
            "a:b:c",
            "sha256:12",
            "sha256",
            "sha256@sha256:1111111111111111111111111111111111111111111111111111111111111111",
            "a@",
            "@b",
            "host:1",
            "a\0",
            "a..b",
        ] {
            assert!(bad.parse::<ImageName>().is_err(), "{bad:?}");
        }
        assert!(format!("host@{ONE}").parse::<ImageName>().is_err());
        assert!("a".repeat(101).parse::<ImageName>().is_err());
    }

    #[test]
    fn a_tag_and_a_digest_meet_in_both() {
        assert_eq!(read("tools").meet(&read(ONE)), Some(read(&format!("tools@{ONE}"))));
        assert_eq!(read(&format!("tools@{ONE}")).meet(&read(TWO)), None);
        assert_eq!(read("tools").meet(&read("tools:2")), None);
        assert_eq!(read("host").meet(&read(ONE)), None);
    }
}
