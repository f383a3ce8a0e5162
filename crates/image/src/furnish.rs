//! Makes an unpacked root one that a sandbox can show: folders to mount on, and the files of `/etc` that say who and where a program is.
//!
//! Whatever stands in the place of a folder that is mounted on anyway is replaced. `/etc` cannot be: an image without a folder there is refused.

use std::os::fd::OwnedFd;

use crate::error::ImageError;
use crate::tree::Tree;

/// Folders that are mounted on, or that programs expect.
const FOLDERS: &[&str] = &["proc", "dev", "sys", "tmp", "inputs", "workspace", "run", "home"];

/// What nothing inside may need: lists of passwords, and the name of a machine that this is not.
const REMOVED: &[&str] = &["shadow", "shadow-", "gshadow", "gshadow-", "machine-id"];

/// Files of `/etc` that are the same in every image.
const GENERATED: &[(&str, &str)] = &[
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("hostname", "sandbox\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"),
    ("resolv.conf", "# there is no network here\n"),
];

/// The one user of a sandbox, first of all: an id is shown by the first name that has it.
const USER: &str = "agent:x:1000:1000:agent:/workspace:/bin/sh\n";
const GROUP: &str = "agent:x:1000:\n";
/// Where the image has none.
const ROOT_USER: &str = "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n";
const ROOT_GROUP: &str = "root:x:0:\n";

/// The most of an image's own list of users that is kept.
const MOST_USERS: u64 = 1 << 20;

/// Furnishes a root.
pub(crate) fn furnish(tree: &Tree) -> Result<(), ImageError> {
    let Some(root) = tree.folder(&[])? else { return Err(ImageError::Unfit("it has no root".into())) };
    for name in FOLDERS {
        tree.place_folder(&root, name.as_bytes())?;
    }
    let run = folder(tree, &["run"])?;
    tree.place_folder(&run, b"ringfence")?;
    if !matches!(tree.kind(&root, b"etc")?, None | Some(rustix::fs::FileType::Directory)) {
        return Err(ImageError::Unfit("its /etc is a link or a file, not a folder".into()));
    }
    tree.place_folder(&root, b"etc")?;
    let etc = folder(tree, &["etc"])?;
    REMOVED.iter().try_for_each(|name| tree.remove(&etc, name.as_bytes()))?;
    for (name, text) in GENERATED {
        write(tree, &etc, name, text.as_bytes())?;
    }
    users(tree, &etc, "passwd", USER, ROOT_USER)?;
    users(tree, &etc, "group", GROUP, ROOT_GROUP)?;
    tree.place_link(&etc, b"mtab", b"/proc/self/mounts")
}

/// Whether a tree can be laid over a furnished root: it must not put a link or a file where folders are mounted on, or where the base has its own.
pub(crate) fn check_over(tree: &Tree) -> Result<(), ImageError> {
    let Some(root) = tree.folder(&[])? else { return Err(ImageError::Unfit("it has no root".into())) };
    for name in FOLDERS.iter().chain(&["etc", "usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32"]) {
        if !matches!(tree.kind(&root, name.as_bytes())?, None | Some(rustix::fs::FileType::Directory)) {
            return Err(ImageError::Unfit(format!("it has a link or a file in the place of /{name}")));
        }
    }
    Ok(())
}

fn folder(tree: &Tree, parts: &[&str]) -> Result<OwnedFd, ImageError> {
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
    tree.folder(&parts)?.ok_or_else(|| ImageError::Unfit("a folder of its root went away".into()))
}

/// The image's own lines are kept, but for a user of the same name.
fn users(tree: &Tree, etc: &OwnedFd, name: &str, agent: &str, root: &str) -> Result<(), ImageError> {
    let own = tree.read(etc, name.as_bytes(), MOST_USERS).unwrap_or_else(|| root.as_bytes().to_vec());
    let lines = own.split(|b| *b == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"agent:"));
    let kept = lines.flat_map(|line| line.iter().chain(b"\n"));
    let text: Vec<u8> = agent.bytes().chain(kept.copied()).collect();
    write(tree, etc, name, &text)
}

fn write(tree: &Tree, etc: &OwnedFd, name: &str, text: &[u8]) -> Result<(), ImageError> {
    let file = tree.place_file(etc, name.as_bytes())?;
    file.write(0, text)?;
    file.finish(text.len() as u64, false, 0)
}
