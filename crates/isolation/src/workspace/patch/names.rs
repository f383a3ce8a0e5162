//! Names that git refuses in a patch, and a whole patch with them: those that some file system takes for `.git`, or for `.gitmodules`.
//! Reference: git's path.c (`is_ntfs_dotgit`, `is_ntfs_dot_generic`) and utf8.c (`is_hfs_dotgit`).

/// True if one part of a path is `.git` somewhere: in any case, with a stream or an end that Windows drops, as its short name there, or with
/// characters that macOS does not see.
pub(super) fn is_git(part: &[u8]) -> bool {
    matches!(folded(part).as_str(), ".git" | "git~1")
}

/// True if a path names a `.gitmodules` somewhere; git takes only a file there. Every short name that could stand for one counts.
pub(super) fn is_modules(path: &[u8]) -> bool {
    let name = folded(path.rsplit(|b| *b == b'/').next().unwrap_or_default());
    let is_short = name.len() == 8 && name.starts_with("gi") && name.contains('~');
    name == ".gitmodules" || is_short
}

fn folded(part: &[u8]) -> String {
    let seen: String = String::from_utf8_lossy(part).chars().filter(|c| !is_unseen(*c)).collect();
    let name = seen.split([':', '\\']).next().unwrap_or_default();
    name.trim_end_matches(['.', ' ']).to_ascii_lowercase()
}

/// Characters that HFS+ leaves out of a comparison.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}')
}
