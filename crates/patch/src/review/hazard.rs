//! What a reviewer could miss, by kind.

/// A kind of change that is easily overlooked, or that does more than it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hazard {
    /// A file that starts programs when a folder is opened, built, tested or committed.
    StartsPrograms,
    /// A file or folder whose name begins with `.git`.
    GitMetadata,
    /// A name that looks like another: letters of several scripts, or characters that are not seen.
    StrangeName,
    /// Names that some file systems take for the same.
    CaseCollision,
    /// A file that can be executed and could not before.
    BecomesExecutable,
    /// A file that could be executed and cannot any more.
    StopsBeingExecutable,
    /// Nothing but the mode is changed.
    ModeOnly,
    /// Content that is not shown, since it is no text.
    Binary,
    /// Characters that are not seen, or that turn the direction of writing, in lines that are added.
    HiddenCharacters,
    /// Words with letters of several scripts in lines that are added.
    MixedScripts,
    /// A line that is added and longer than anybody reads.
    LongLine,
    /// A file that goes as a whole.
    Removed,
    /// A file that is left without content.
    Emptied,
    /// A test that goes, is emptied, or is skipped.
    TestsLost,
    /// Nothing but the ends of lines is changed.
    LineEndsOnly,
    /// Lines that end differently in one file.
    MixedLineEnds,
    /// A file that is very long.
    BigFile,
    /// A file of which very many lines change.
    LongDiff,
}

impl Hazard {
    /// The kind in words.
    pub fn says(self) -> &'static str {
        match self {
            Self::StartsPrograms => "starts programs",
            Self::GitMetadata => "is git's or a forge's",
            Self::StrangeName => "has a strange name",
            Self::CaseCollision => "differs from another name in case only",
            Self::BecomesExecutable => "becomes executable",
            Self::StopsBeingExecutable => "stops being executable",
            Self::ModeOnly => "changes its mode alone",
            Self::Binary => "is binary, and not shown",
            Self::HiddenCharacters => "adds characters that are not seen",
            Self::MixedScripts => "adds words of look-alike letters",
            Self::LongLine => "adds very long lines",
            Self::Removed => "is removed",
            Self::Emptied => "is emptied",
            Self::TestsLost => "loses tests",
            Self::LineEndsOnly => "changes its line ends alone",
            Self::MixedLineEnds => "gets mixed line ends",
            Self::BigFile => "is big",
            Self::LongDiff => "changes in very many lines",
        }
    }
}

/// One such change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Its kind.
    pub hazard: Hazard,
    /// Where.
    pub path: Vec<u8>,
    /// More about it, safe to show; may be empty.
    pub detail: String,
}
