//! Why a patch does not fit a tree: the file, the line of the patch, what was found there, and what to do about it.

use std::io;

use crate::binary::DeltaFault;
use crate::limits::LimitFault;
use crate::mode::Mode;

/// A patch that does not fit a tree.
#[derive(Debug, thiserror::Error)]
#[error("{path} (line {line} of the patch): {fault}")]
pub struct ApplyError {
    /// The file, escaped.
    pub path: String,
    /// The line of the patch, from 1.
    pub line: usize,
    /// What does not fit.
    pub fault: ApplyFault,
}

impl ApplyError {
    /// What would make it fit, where anything would.
    pub fn hint(&self) -> Option<&'static str> {
        self.fault.hint()
    }
}

/// What can be wrong with a patch for a tree. Texts in it are escaped and shortened.
#[derive(Debug, thiserror::Error)]
pub enum ApplyFault {
    /// The base could not be read.
    #[error("reading {0} in the base")]
    Read(String, #[source] io::Error),
    /// A file is made where one is.
    #[error("is there already")]
    Exists,
    /// A file is changed or removed that is not there.
    #[error("is not there")]
    Missing,
    /// The path is a folder.
    #[error("is a folder in the base")]
    Folder,
    /// The path is a link.
    #[error("is a symbolic link in the base")]
    Link,
    /// The path is a submodule.
    #[error("is a submodule in the base")]
    Gitlink,
    /// The path has a mode that is neither of the two of files.
    #[error("has mode {0:06o} in the base, and only 100644 and 100755 are files")]
    OddMode(u32),
    /// A folder of the path is something else.
    #[error("is behind {folder}, which is a {what} in the base")]
    Behind {
        /// The folder, escaped.
        folder: String,
        /// What it is.
        what: &'static str,
    },
    /// The mode is not what the patch says.
    #[error("has mode {:o}, and the patch says {:o}", is.bits(), said.bits())]
    OtherMode {
        /// The base's.
        is: Mode,
        /// The patch's.
        said: Mode,
    },
    /// The content is the same afterwards, and so is the mode.
    #[error("is the same afterwards")]
    Same,
    /// A file is removed and the patch does not hold all of it.
    #[error("is removed, and the patch does not hold the content that goes")]
    Leaves,

    /// A hunk's lines are not there.
    #[error("line {line} of the file is {is}, and the hunk has {said}")]
    OtherLine {
        /// The line of the file, from 1.
        line: usize,
        /// What it is.
        is: String,
        /// What the hunk says.
        said: String,
    },
    /// A hunk's lines are in several places and not where it says.
    #[error("the hunk's lines are not at line {said} of the file, but at more than one other place, lines {first} and {second} among them")]
    Ambiguous {
        /// Where the hunk says.
        said: usize,
        /// One place.
        first: usize,
        /// Another place.
        second: usize,
    },
    /// The lines would be there but for their ends.
    #[error("the file's lines end with {file}, the hunk's with {hunk}")]
    LineEnds {
        /// What ends lines of the file.
        file: &'static str,
        /// What ends lines of the hunk.
        hunk: &'static str,
    },
    /// A hunk ends where the file does not.
    #[error("the hunk reaches to the end of the file, and the file goes on")]
    NotAtEnd,
    /// A hunk adds lines and shows nothing of where.
    #[error("the hunk shows no line of the file, which may not be the one that it was made for")]
    Nowhere,
    /// Looking for moved hunks would take too long.
    #[error("too many hunks are not at their lines")]
    Moved,

    /// The base is not the one of binary content.
    #[error("the id of the base is {is}, and the patch is for {said}")]
    OtherBase {
        /// The base's.
        is: String,
        /// The patch's.
        said: String,
    },
    /// What comes out is not what the patch says comes out.
    #[error("the id of the result is {is}, and the patch says {said}")]
    OtherResult {
        /// The result's.
        is: String,
        /// The patch's.
        said: String,
    },
    /// The block for the way back does not lead to the base.
    #[error("the content that the patch says was there before is not the base's")]
    OtherReverse,
    /// A delta does not fit.
    #[error("the binary content {0}")]
    Delta(#[from] DeltaFault),
    /// A limit is met.
    #[error("the patch {0}")]
    Limit(#[from] LimitFault),
}

impl ApplyFault {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Exists | Self::Missing | Self::OtherMode { .. } => Some("make the patch from the tree that it is for"),
            Self::OtherLine { .. } | Self::Ambiguous { .. } | Self::NotAtEnd | Self::Moved | Self::OtherBase { .. } => {
                Some("the file has changed since: make the patch from the tree that it is for")
            }
            Self::LineEnds { .. } => Some("keep the file's line ends: nothing converts them, neither here nor where the patch is made"),
            Self::Nowhere => Some("make the patch with context, without `-U0`, or with `--full-index`"),
            Self::Leaves => Some("make the patch without `--irreversible-delete`"),
            Self::OtherResult { .. } | Self::OtherReverse => {
                Some("the patch was changed by hand: make it anew with `git diff --binary --full-index`")
            }
            Self::Folder | Self::Link | Self::Gitlink | Self::OddMode(_) | Self::Behind { .. } => {
                Some("leave it out of the patch; whoever owns the repository can change it")
            }
            Self::Limit(_) => Some("make a smaller change, or ask the operator for a larger limit"),
            Self::Read(..) | Self::Same | Self::Delta(_) => None,
        }
    }
}
