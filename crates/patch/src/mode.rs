//! What a file of a tree is to a patch: its bytes, and one of the two modes that git gives a file.
//!
//! A patch that a person decides about knows no third mode. The writer does: what a run did with links is told, and refused by whoever reads it.

/// The mode of a file, of which git knows two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// `100644`
    Plain,
    /// `100755`
    Executable,
}

impl Mode {
    /// The mode as git's number, if it is one of the two.
    pub fn from_bits(bits: u32) -> Option<Self> {
        [Self::Plain, Self::Executable].into_iter().find(|mode| mode.bits() == bits)
    }

    /// As git records it.
    pub fn bits(self) -> u32 {
        match self {
            Self::Plain => 0o100644,
            Self::Executable => 0o100755,
        }
    }
}

/// A file: its mode and its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Blob {
    /// Whether it is executable.
    pub mode: Mode,
    /// The content.
    pub bytes: Vec<u8>,
}

/// One side of a change as the writer takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side<'a> {
    /// What it is.
    pub kind: Kind,
    /// The content, or where a link leads.
    pub bytes: &'a [u8],
}

/// What one side of a written change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File(Mode),
    /// A symbolic link.
    Link,
}

impl Kind {
    /// As git records it.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::File(mode) => mode.bits(),
            Self::Link => 0o120000,
        }
    }
}

impl<'a> From<&'a Blob> for Side<'a> {
    fn from(blob: &'a Blob) -> Self {
        Self { kind: Kind::File(blob.mode), bytes: &blob.bytes }
    }
}
