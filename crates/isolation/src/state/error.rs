//! Why state could not be saved or restored.

use std::io;

use rustix::io::Errno;

use crate::files::FileError;
use crate::files::error::AtPath;
use crate::text::OsText;

/// Why state could not be saved or restored. Paths begin with `workspace` or `tmp`; bytes that are not UTF-8 stand as `%XX`.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or folder of the sandbox could not be read or made.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is more than may be kept.
    #[error(
        "`{path}` does not fit: more than {most_bytes} bytes would be kept; remove what need not last, or ask for a larger `disk` limit"
    )]
    TooLarge {
        /// What went beyond.
        path: String,
        /// The most.
        most_bytes: u64,
    },
    /// A path is longer than can be opened.
    #[error("`{path}` is more than {most} bytes deep and cannot be kept; move it up or remove it")]
    TooDeep {
        /// Its folder.
        path: String,
        /// The most.
        most: usize,
    },
    /// The workspace is somebody's project, which has its own files.
    #[error("the workspace is a view of a project: state can be restored into an empty workspace only; leave out the project or the state")]
    Project,
    /// The tar is not as it was written.
    #[error("the saved state is damaged: {cause}")]
    Damaged {
        /// What is wrong.
        cause: String,
    },
    /// The tar could not be written or read, or whoever waits does not any more.
    #[error("{act} the saved state: {source}")]
    Copy {
        /// What was tried.
        act: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl StateError {
    pub(super) fn damaged(cause: impl Into<String>) -> Self {
        Self::Damaged { cause: cause.into() }
    }
}

/// Names the path in the tar of what failed.
pub(super) fn at<T>(result: Result<T, Errno>, path: &[u8]) -> Result<T, StateError> {
    Ok(result.at(&OsText::from(path))?)
}

/// What failed with the tar itself.
pub(super) fn copying(act: &'static str) -> impl FnOnce(io::Error) -> StateError {
    move |source| StateError::Copy { act, source }
}

pub(super) fn escaped(path: &[u8]) -> String {
    OsText::from(path).escaped()
}
