//! Files in the words of the protocol.

use ringfence_isolation::{FileChange, FileEntry, FileKind, OsText};
use serde_json::{Value, json};

use crate::e2b::sandboxes::Sandbox;
use crate::moment::rfc3339;

/// A path of a client's: `~` is the user's home, and what does not begin with `/` begins there.
pub(super) fn path(sandbox: &Sandbox, text: &str) -> OsText {
    let home = sandbox.session.user.home();
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => OsText::from(format!("{home}{rest}").as_str()),
        _ => OsText::from(text),
    }
}

/// The same, beginning with `/`.
pub(super) fn absolute(sandbox: &Sandbox, text: &str) -> OsText {
    let path = path(sandbox, text);
    match path.as_bytes().starts_with(b"/") {
        true => path,
        false => OsText::from(format!("{}/{text}", sandbox.session.user.home()).as_str()),
    }
}

/// A path as text: what is not UTF-8 is shown as well as it can be.
pub(super) fn text(path: &OsText) -> String {
    path.as_os_str().to_string_lossy().into_owned()
}

/// The last part of a path.
pub(super) fn name(path: &OsText) -> String {
    text(path).rsplit('/').next().unwrap_or_default().to_owned()
}

/// What is told of a file.
pub(super) fn info(sandbox: &Sandbox, entry: &FileEntry) -> Value {
    let mut info = json!({
        "name": name(&entry.path),
        "type": kind(entry.kind),
        "path": text(&entry.path),
        "size": entry.bytes.to_string(),
        "mode": entry.mode & 0o777,
        "permissions": permissions(entry.mode),
        "owner": owner(sandbox, entry.uid),
        "group": owner(sandbox, entry.gid),
        "modifiedTime": modified(entry),
    });
    if let Some(target) = &entry.target {
        info["symlinkTarget"] = json!(text(target));
    }
    if !entry.metadata.is_empty() {
        info["metadata"] = json!(entry.metadata);
    }
    info
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "FILE_TYPE_FILE",
        FileKind::Folder => "FILE_TYPE_DIRECTORY",
        FileKind::Link => "FILE_TYPE_SYMLINK",
        FileKind::Special => "FILE_TYPE_UNSPECIFIED",
    }
}

/// As `ls -l` shows them.
fn permissions(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'L',
        0o010_000 => 'p',
        0o140_000 => 'S',
        _ => '-',
    };
    let bits = (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' });
    std::iter::once(kind).chain(bits).collect()
}

fn owner(sandbox: &Sandbox, id: u32) -> String {
    match id {
        0 => "root".into(),
        1000 => sandbox.session.user.to_string(),
        65_534 => "nobody".into(),
        other => other.to_string(),
    }
}

fn modified(entry: &FileEntry) -> String {
    let (seconds, nanos) = entry.modified;
    let since = std::time::Duration::new(u64::try_from(seconds).unwrap_or(0), nanos.min(999_999_999));
    rfc3339(std::time::UNIX_EPOCH.checked_add(since).unwrap_or(std::time::UNIX_EPOCH))
}

/// The name of a change.
pub(super) fn change(change: FileChange) -> &'static str {
    match change {
        FileChange::Create => "EVENT_TYPE_CREATE",
        FileChange::Write => "EVENT_TYPE_WRITE",
        FileChange::Remove => "EVENT_TYPE_REMOVE",
        FileChange::Rename => "EVENT_TYPE_RENAME",
        FileChange::Chmod => "EVENT_TYPE_CHMOD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_shown_as_ls_does() {
        assert_eq!(permissions(0o100_644), "-rw-r--r--");
        assert_eq!(permissions(0o040_755), "drwxr-xr-x");
        assert_eq!(permissions(0o100_000), "----------");
    }
}
