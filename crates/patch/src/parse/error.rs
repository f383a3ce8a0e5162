//! Why a patch is refused before any tree is looked at: the line, what is wrong there, and what to do about it.

use crate::binary::{DeltaFault, DigitFault, UnpackFault};
use crate::limits::LimitFault;
use crate::names::NameFault;

/// A patch that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct PatchError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

impl PatchError {
    /// What would make it better, where anything would.
    pub fn hint(&self) -> Option<&'static str> {
        self.fault.hint()
    }
}

/// What can be wrong with a patch. Names and lines in it are escaped and shortened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A limit is met.
    #[error("the patch {0}")]
    Limit(#[from] LimitFault),
    /// The last line has no end.
    #[error("the patch ends in the middle of a line")]
    Cut,
    /// No file is changed.
    #[error("the patch changes nothing: no line begins with `diff --git `")]
    NoChange,
    /// Another format.
    #[error("`{0}` before any `diff --git`: this is a diff, but not in git's format")]
    NotGit(String),
    /// A merge.
    #[error("`{0}` is the diff of a merge")]
    Merge(String),
    /// No line of the format, here.
    #[error("`{0}` is not a line of git's format at this place")]
    Unknown(String),

    /// The names of a `diff --git` line.
    #[error("the names in `{0}` are not two names with `a/` and `b/` in front that fit each other and the lines below")]
    Heading(String),
    /// A name that cannot be read.
    #[error("`{0}` is not a name as git writes it")]
    Quoting(String),
    /// A line of the patch ends with CR LF.
    #[error("the patch's own lines end with CR LF")]
    CarriageReturn,
    /// A name that no patch may have.
    #[error("{name} {fault}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// Two lines about one file that name different files.
    #[error("`{0}` names another file than the lines before")]
    OtherName(String),
    /// A header that is there already.
    #[error("`{0}` says again what was said before")]
    Twice(String),
    /// Headers that cannot both be true.
    #[error("{0}")]
    Contradiction(&'static str),
    /// A mode other than the two of files.
    #[error("{0}")]
    Mode(ModeFault),
    /// A header about ids that cannot be read.
    #[error("`{0}` is not `index OLD..NEW`")]
    Index(String),
    /// A section without any change in it.
    #[error("nothing is changed about {0}")]
    Nothing(String),
    /// A path has two changes.
    #[error("{name} was changed before, at line {line}")]
    TwoChanges {
        /// The path.
        name: String,
        /// Where the other change is.
        line: usize,
    },
    /// A path would be a file and a folder.
    #[error("{name} would be a file, and also a folder for {inner}")]
    FileAndFolder {
        /// The path.
        name: String,
        /// The other path, in it.
        inner: String,
    },

    /// A hunk's first line.
    #[error("`{0}` does not begin a hunk")]
    HunkHeader(String),
    /// A hunk that is shorter than it says.
    #[error("the hunk has {old} and {new} lines less than its first line says")]
    HunkShort {
        /// Lines that are missing on the old side.
        old: usize,
        /// Lines that are missing on the new side.
        new: usize,
    },
    /// A hunk that is longer than it says.
    #[error("the hunk has more lines than its first line says")]
    HunkLong,
    /// A line after the last line of a file.
    #[error("a line without a newline at its end is followed by another line of the file")]
    AfterEnd,
    /// A mark that says nothing about any line.
    #[error("`{0}` says nothing about any line")]
    NoNewline(String),
    /// Hunks out of order.
    #[error("the hunk begins before the one above it ends")]
    Overlap,
    /// A new side that does not follow from the old one.
    #[error("the hunk begins at line {said} of the new file, which the hunks above make line {is}")]
    NewStart {
        /// What the hunk says.
        said: usize,
        /// What follows from the hunks above.
        is: usize,
    },
    /// A hunk without a change.
    #[error("the hunk changes nothing")]
    HunkSame,

    /// A change of binary content without the content.
    #[error("`{0}`: the patch does not hold the content")]
    BinaryDiffers(String),
    /// Binary content without the ids that it must have.
    #[error("binary content needs an `index` line with both ids in full")]
    ShortIds,
    /// The first line of a binary block.
    #[error("`{0}` does not begin binary content")]
    BlockHeader(String),
    /// A block without its empty line.
    #[error("the binary content does not end with an empty line")]
    BlockOpen,
    /// A line of a block.
    #[error("the line {0}")]
    Digits(#[from] DigitFault),
    /// A block's packing.
    #[error("the binary content {0}")]
    Unpack(#[from] UnpackFault),
    /// A block's instructions.
    #[error("the binary content {0}")]
    Delta(#[from] DeltaFault),
}

/// A mode that is not one of a file's two: what the patch does, and with which mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeFault {
    /// `120000`
    #[error("the patch {0} a symbolic link (mode 120000)")]
    Link(&'static str),
    /// `160000`
    #[error("the patch {0} a submodule (gitlink, mode 160000)")]
    Gitlink(&'static str),
    /// `040000`
    #[error("the patch {0} a folder by its mode 040000")]
    Folder(&'static str),
    /// Anything else.
    #[error("the patch sets mode {0}, and only 100644 and 100755 are files")]
    Other(String),
}

const MADE_BY_GIT: &str = "make the patch with `git diff --binary --full-index`, or let ringfence make it";

impl Fault {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotGit(_) => Some("make it with `git diff`"),
            Self::Merge(_) => Some("make a diff between two trees with `git diff OLD NEW`"),
            Self::Heading(_) => Some("unset diff.noprefix and diff.mnemonicPrefix, or use `git diff --default-prefix`"),
            Self::CarriageReturn => Some("keep the patch as git wrote it: line ends in it are content"),
            Self::BinaryDiffers(_) | Self::ShortIds => Some("make it with `git diff --binary --full-index`"),
            Self::Mode(ModeFault::Link(_) | ModeFault::Gitlink(_)) => {
                Some("leave it out of the patch; whoever owns the repository can do it")
            }
            Self::Name { fault: NameFault::Git | NameFault::Steers, .. } => {
                Some("leave the file out; whoever owns the repository can change it")
            }
            Self::TwoChanges { .. } | Self::FileAndFolder { .. } => Some("make the patch with `git diff --no-renames` between two trees"),
            Self::Cut | Self::HunkShort { .. } | Self::HunkLong | Self::NewStart { .. } | Self::Overlap | Self::AfterEnd => {
                Some(MADE_BY_GIT)
            }
            Self::Limit(_) => Some("make a smaller change, or ask the operator for a larger limit"),
            Self::NoChange
            | Self::Unknown(_)
            | Self::Quoting(_)
            | Self::OtherName(_)
            | Self::Twice(_)
            | Self::Contradiction(_)
            | Self::Index(_) => Some(MADE_BY_GIT),
            Self::Name { .. } | Self::Mode(ModeFault::Folder(_) | ModeFault::Other(_)) | Self::Nothing(_) | Self::HunkSame => None,
            Self::HunkHeader(_) | Self::NoNewline(_) | Self::BlockHeader(_) | Self::BlockOpen => Some(MADE_BY_GIT),
            Self::Digits(_) | Self::Unpack(_) | Self::Delta(_) => Some(MADE_BY_GIT),
        }
    }
}
