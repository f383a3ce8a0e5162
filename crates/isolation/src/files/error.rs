//! Why something could not be done with a file.

use rustix::io::Errno;

use crate::text::OsText;

/// Why something could not be done with a file of a sandbox. Paths are the sandbox's; bytes that are not UTF-8 stand as `%XX`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No path can be like that.
    #[error("`{path}` is not a path: it holds a NUL or is longer than 4095 bytes")]
    Path {
        /// It.
        path: String,
    },
    /// Nothing is there.
    #[error("`{path}` does not exist")]
    Missing {
        /// Where.
        path: String,
    },
    /// Something is there already.
    #[error("`{path}` already exists")]
    Exists {
        /// Where.
        path: String,
        /// Whether it is a folder.
        is_folder: bool,
    },
    /// A folder, where a file is needed.
    #[error("`{path}` is a directory, not a file")]
    IsFolder {
        /// Where.
        path: String,
    },
    /// No folder, where one is needed.
    #[error("`{path}` is not a directory")]
    NotFolder {
        /// Where.
        path: String,
    },
    /// A device, a socket, a pipe, or a file of the kernel's.
    #[error("`{path}` is no regular file: only files and directories of the sandbox's own can be reached from outside")]
    Special {
        /// Where.
        path: String,
    },
    /// The kernel does not do this with what is there, whoever asks.
    #[error("this cannot be done with `{path}`: {cause}")]
    Unfit {
        /// Where.
        path: String,
        /// Why not.
        cause: &'static str,
    },
    /// The agent may not do this.
    #[error("the sandbox's user may not do this with `{path}`: {cause}")]
    Denied {
        /// Where.
        path: String,
        /// The kernel's word.
        cause: String,
    },
    /// There is no room.
    #[error("no room for `{path}`: the sandbox's disk limit is met")]
    Full {
        /// Where.
        path: String,
    },
    /// More than can be told of at once.
    #[error("`{path}` has more than {most} entries: list a part of it")]
    TooMany {
        /// Where.
        path: String,
        /// The most.
        most: usize,
    },
    /// Something else.
    #[error("`{path}`: {cause}")]
    Failed {
        /// Where.
        path: String,
        /// The kernel's word.
        cause: String,
    },
}

/// Names the path of an errno.
pub(crate) trait AtPath<T> {
    fn at(self, path: &OsText) -> Result<T, FileError>;
}

impl<T> AtPath<T> for Result<T, Errno> {
    fn at(self, path: &OsText) -> Result<T, FileError> {
        self.map_err(|errno| of(errno, path.escaped()))
    }
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, path: &OsText) -> Result<T, FileError> {
        self.map_err(|error| of(crate::step::errno(error), path.escaped()))
    }
}

fn of(errno: Errno, path: String) -> FileError {
    let cause = std::io::Error::from(errno).to_string();
    match errno {
        Errno::NOENT => FileError::Missing { path },
        Errno::EXIST | Errno::NOTEMPTY => FileError::Exists { path, is_folder: errno == Errno::NOTEMPTY },
        Errno::ISDIR => FileError::IsFolder { path },
        Errno::NOTDIR => FileError::NotFolder { path },
        Errno::NOSPC | Errno::DQUOT => FileError::Full { path },
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FileError::Denied { path, cause },
        Errno::NXIO | Errno::NODEV => FileError::Special { path },
        Errno::XDEV => FileError::Unfit { path, cause: "it is on another file system; a command inside, such as `mv`, copies it there" },
        Errno::LOOP => FileError::Unfit { path, cause: "its links lead to each other" },
        Errno::BUSY | Errno::TXTBSY => FileError::Unfit { path, cause: "it is in use" },
        Errno::NAMETOOLONG | Errno::INVAL => FileError::Path { path },
        _ => FileError::Failed { path, cause },
    }
}
