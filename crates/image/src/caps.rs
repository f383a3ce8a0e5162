//! How large an image may be. What a stranger sends is counted while it is read, over all its layers, and before anything of it is written.

use crate::error::ImageError;

/// The most of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Entries of all layers, and folders that they imply.
    pub entries: u64,
    /// Bytes of all files as they appear, holes counted in full. The same bounds what is decompressed, and so how far a small archive can grow.
    pub bytes: u64,
    /// Layers.
    pub layers: usize,
    /// Bytes of a manifest, index or configuration.
    pub document: u64,
    /// Bytes of a path.
    pub path: usize,
    /// Folders above an entry: whatever walks a tree holds a descriptor for each.
    pub depth: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 16 << 30, layers: 128, document: 4 << 20, path: 4096, depth: 128 }
    }
}

/// What of the caps is left.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) caps: Caps,
    entries: u64,
    bytes: u64,
    stream: u64,
}

impl Budget {
    pub(crate) fn of(caps: Caps) -> Self {
        Self { caps, entries: caps.entries, bytes: caps.bytes, stream: caps.bytes }
    }

    /// Takes an entry.
    pub(crate) fn entry(&mut self) -> Result<(), ImageError> {
        let (what, most) = ("entries", self.caps.entries);
        self.entries = self.entries.checked_sub(1).ok_or(ImageError::TooMuch { what, most })?;
        Ok(())
    }

    /// Takes the bytes of a file.
    pub(crate) fn file(&mut self, bytes: u64) -> Result<(), ImageError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(self.too_many_bytes())?;
        Ok(())
    }

    /// Decompressed bytes that may still be read.
    pub(crate) fn stream_left(&self) -> u64 {
        self.stream
    }

    /// Takes decompressed bytes; more than were left are all that were left.
    pub(crate) fn stream(&mut self, bytes: u64) {
        self.stream = self.stream.saturating_sub(bytes);
    }

    pub(crate) fn too_many_bytes(&self) -> ImageError {
        ImageError::TooMuch { what: "bytes", most: self.caps.bytes }
    }
}
