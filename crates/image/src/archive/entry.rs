//! What one entry of an archive is, and where it stands. Whatever is not plainly one of the kinds below is refused here.

use tar::Header;

use super::extension::Extension;
use crate::caps::Caps;
use crate::error::ImageError;

/// A path below the root of an image.
///
/// INVARIANT (beneath): plain parts of at most 255 bytes, none empty, `.` or `..`, no NUL. Without parts it is the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryPath(Vec<Vec<u8>>);

impl EntryPath {
    /// Parses the path of an entry or of a hard link's target.
    pub(crate) fn parse(bytes: &[u8], caps: &Caps) -> Result<Self, ImageError> {
        let refused = |cause: &str| Err(ImageError::entry(&bytes[..bytes.len().min(caps.path)], cause));
        if bytes.len() > caps.path {
            return refused(&format!("begins a path longer than {} bytes", caps.path));
        }
        if bytes.starts_with(b"/") {
            return refused("is absolute; entries stand below the root of the image");
        }
        let parts: Vec<Vec<u8>> =
            bytes.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect();
        match parts.iter().find(|part| *part == b".." || part.contains(&0) || part.len() > 255) {
            Some(part) if part == b".." => refused("leads out of its folder by `..`"),
            Some(part) if part.contains(&0) => refused("holds a NUL byte"),
            Some(_) => refused("has a name longer than 255 bytes"),
            None if parts.len() > caps.depth => refused(&format!("stands more than {} folders deep", caps.depth)),
            None => Ok(Self(parts)),
        }
    }

    /// The folder that it stands in, and its name there; `None` for the root.
    pub(crate) fn split(&self) -> Option<(&[Vec<u8>], &[u8])> {
        self.0.split_last().map(|(name, folder)| (folder, name.as_slice()))
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// The same path below `/usr`, if its first part is one of `aliases`.
    fn in_usr(&self, aliases: &[Vec<u8>]) -> Self {
        match self.0.first().is_some_and(|first| aliases.contains(first)) {
            true => Self(std::iter::once(b"usr".to_vec()).chain(self.0.iter().cloned()).collect()),
            false => self.clone(),
        }
    }

    /// As one path, for the kernel and for people.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        joined(&self.0)
    }
}

/// Parts as one path; `.` for the root.
pub(crate) fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') }
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file of so many bytes, holes included.
    File { bytes: u64, is_executable: bool },
    /// Another name of a file of the image.
    HardLink { target: EntryPath },
    /// A symbolic link: data, resolved inside the sandbox only.
    Link { target: Vec<u8> },
    /// A folder.
    Folder,
    /// A device or pipe, which no image needs: `/dev` is the sandbox's own.
    Special,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: EntryPath,
    pub(crate) kind: Kind,
    /// Seconds since 1970.
    pub(crate) modified_at: u64,
}

impl Entry {
    /// The same entry where names at the root lead to the same names in `/usr`.
    pub(crate) fn in_usr(self, aliases: &[Vec<u8>]) -> Self {
        let kind = match self.kind {
            Kind::HardLink { target } => Kind::HardLink { target: target.in_usr(aliases) },
            kind @ (Kind::File { .. } | Kind::Link { .. } | Kind::Folder | Kind::Special) => kind,
        };
        Self { path: self.path.in_usr(aliases), kind, ..self }
    }

    /// Reads a header with what was said about it before. A file's size may still be that of its parts that are no holes.
    pub(super) fn of(header: &Header, extension: &Extension, stored: u64, caps: &Caps) -> Result<Self, ImageError> {
        let raw = extension.path.clone().unwrap_or_else(|| header.path_bytes().into_owned());
        let path = EntryPath::parse(&raw, caps)?;
        let refused = |cause: String| Err(ImageError::entry(&path.bytes(), cause));
        let is_executable = header.mode().map_err(|e| ImageError::entry(&path.bytes(), e.to_string()))? & 0o111 != 0;
        let target = || extension.link.clone().or_else(|| header.link_name_bytes().map(|name| name.into_owned())).unwrap_or_default();
        let kind = match header.entry_type().as_byte() {
            0 if raw.ends_with(b"/") => Kind::Folder, // as tar was before there were types
            b'0' | 0 | b'7' | b'S' => Kind::File { bytes: stored, is_executable },
            b'1' => Kind::HardLink { target: EntryPath::parse(&target(), caps)? },
            b'2' => Kind::Link { target: target() },
            b'3' | b'4' | b'6' => Kind::Special,
            b'5' => Kind::Folder,
            other => return refused(format!("is of the unknown kind `{}`", char::from(other).escape_debug())),
        };
        match &kind {
            Kind::Link { target } if target.is_empty() || target.len() >= caps.path || target.contains(&0) => {
                refused("is a symbolic link to nothing that could be a path".into())
            }
            Kind::File { .. } if path.parts().is_empty() => refused("is a file in the place of the root".into()),
            Kind::File { .. } | Kind::HardLink { .. } | Kind::Link { .. } | Kind::Folder | Kind::Special => {
                Ok(Self { modified_at: extension.modified_at.or(header.mtime().ok()).unwrap_or(0), path, kind })
            }
        }
    }
}
