//! Which paths a patch may name: relative ones without tricks, and none that git itself reads. Names are compared as every file system that
//! git knows would: what one of them takes for `.git` counts as `.git`.
//! Reference: git's path.c (`is_ntfs_dotgit`, `is_ntfs_dot_generic`) and utf8.c (`is_hfs_dotgit`).

/// The longest path, as Linux takes it.
const LONGEST_PATH: usize = 4096;
/// The longest part of a path.
const LONGEST_PART: usize = 255;

/// Why a path may not stand in a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// There is no name.
    #[error("is empty")]
    Empty,
    /// It begins at the root.
    #[error("is absolute")]
    Absolute,
    /// It ends with a slash, or has two in a row.
    #[error("has an empty part")]
    EmptyPart,
    /// A part is `.` or `..`.
    #[error("has a part `.` or `..`")]
    Dots,
    /// It holds a NUL byte.
    #[error("holds a NUL byte")]
    Nul,
    /// It is longer than the kernel takes.
    #[error("is longer than 4096 bytes, or a part of it than 255")]
    Long,
    /// A part is `.git` on some file system.
    #[error("is inside `.git`, in the spelling of some file system")]
    Git,
    /// A part is a name that git reads.
    #[error("is a name that steers git")]
    Steers,
}

/// Whether a patch may name this path.
pub(crate) fn check(path: &[u8]) -> Result<(), NameFault> {
    let parts = || path.split(|byte| *byte == b'/');
    // A backslash is a slash on Windows.
    let careful_parts = || path.split(is_slash).filter(|part| can_be_gits(part));
    let rules: [(NameFault, &dyn Fn() -> bool); 8] = [
        (NameFault::Empty, &|| path.is_empty()),
        (NameFault::Nul, &|| path.contains(&0)),
        (NameFault::Long, &|| path.len() > LONGEST_PATH || parts().any(|part| part.len() > LONGEST_PART)),
        (NameFault::Absolute, &|| path.starts_with(b"/")),
        (NameFault::EmptyPart, &|| parts().any(<[u8]>::is_empty)),
        (NameFault::Dots, &|| path.split(is_slash).any(|part| matches!(part, b"." | b".."))),
        (NameFault::Git, &|| careful_parts().any(is_git)),
        (NameFault::Steers, &|| careful_parts().any(steers_git)),
    ];
    rules.into_iter().find(|(_, is_so)| is_so()).map_or(Ok(()), |(fault, _)| Err(fault))
}

/// Names of git's begin with a dot or with `g`, after characters that are not seen, which are not ASCII.
fn can_be_gits(part: &[u8]) -> bool {
    part.first().is_some_and(|first| matches!(first, b'.' | b'g' | b'G') || !first.is_ascii())
}

fn is_slash(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

/// True if one part of a path is `.git` somewhere: in any case, with a stream or an end that Windows drops, as its short name there, or with
/// characters that macOS does not see.
pub fn is_git(part: &[u8]) -> bool {
    matches!(folded(part).as_str(), ".git" | "git~1")
}

/// True if a path names a `.gitmodules` somewhere; git takes only a file there. Every short name that could stand for one counts.
pub fn is_modules(path: &[u8]) -> bool {
    let name = folded(path.rsplit(|b| *b == b'/').next().unwrap_or_default());
    name == ".gitmodules" || is_short_name(&name)
}

/// The names of git's own files begin with `.git`; of these, ignore rules and the folders of two services are only data to git.
fn steers_git(part: &[u8]) -> bool {
    let name = folded(part);
    let is_harmless = matches!(name.as_str(), ".gitignore" | ".gitkeep" | ".github") || name.starts_with(".gitlab");
    (name.starts_with(".git") && !is_harmless) || is_short_name(&name)
}

/// Names that Windows may have for one of git's files.
fn is_short_name(folded: &str) -> bool {
    folded.len() == 8 && folded.starts_with("gi") && folded.contains('~')
}

/// A name as the most careless file system compares it.
pub(crate) fn folded(part: &[u8]) -> String {
    let seen: String = String::from_utf8_lossy(part).chars().filter(|c| !is_unseen(*c)).collect();
    let name = seen.split([':', '\\']).next().unwrap_or_default();
    name.trim_end_matches(['.', ' ']).to_ascii_lowercase()
}

/// Characters that HFS+ leaves out of a comparison.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_pass() {
        let long = "x".repeat(255);
        for name in
            ["a", "a/b", ".a", "...", "a b", "-x", "é", ".gitignore", "x/.gitkeep", ".github/workflows/ci.yml", ".gitlab-ci.yml", &long]
        {
            assert_eq!(check(name.as_bytes()), Ok(()), "{name}");
        }
        assert_eq!(check(b"\xff\n\""), Ok(()));
    }

    #[test]
    fn names_with_tricks_are_refused() {
        let long = "x".repeat(256);
        let cases = [
            (NameFault::Empty, vec![""]),
            (NameFault::Absolute, vec!["/", "/etc/passwd", "//x"]),
            (NameFault::EmptyPart, vec!["a/", "a//b"]),
            (NameFault::Dots, vec![".", "..", "./a", "a/.", "a/../b", "../a", "a\\..\\b"]),
            (NameFault::Nul, vec!["a\0b"]),
            (NameFault::Long, vec![&long]),
        ];
        for (fault, names) in cases {
            for name in names {
                assert_eq!(check(name.as_bytes()), Err(fault), "{name}");
            }
        }
        assert_eq!(check(&b"x/".repeat(2049)), Err(NameFault::Long));
    }

    #[test]
    fn what_some_file_system_takes_for_git_is_refused() {
        for name in [
            ".git",
            ".git/config",
            "a/.GIT/hooks/x",
            ".git./x",
            ".git ",
            ".git::$INDEX_ALLOCATION/x",
            "git~1",
            "GIT~1/x",
            ".g\u{200c}it",
            "a\\.git",
        ] {
            assert_eq!(check(name.as_bytes()), Err(NameFault::Git), "{name}");
        }
        for name in [
            ".gitmodules",
            "x/.GitModules",
            ".gitattributes",
            ".gitconfig",
            ".gitmodules.",
            "GITMOD~1",
            "gi7eba~1",
            ".gitx/y",
            ".mailmap\\.gitmodules",
        ] {
            assert_eq!(check(name.as_bytes()), Err(NameFault::Steers), "{name}");
        }
    }
}
