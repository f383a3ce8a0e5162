//! The default image: the host's own `/usr`, read-only, under a small root that is made once and kept.
//!
//! `/etc` in it is generated, or copied by a fixed list of files that hold no credential; it is never the host's. The root is named by what it
//! was made from, so a changed host makes a new one.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Image;

/// Files and folders of `/etc` that programs of `/usr` need and that hold no credential. A `*` at the end stands for any ending.
const COPIED: &[&str] = &[
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "java-*",
    "fonts",
    "mime.types",
    "services",
    "protocols",
    "localtime",
    "timezone",
    "debian_version",
    "python3*",
    "perl",
    "matplotlibrc",
];

/// Folders that exist empty, to be mounted on or because programs expect them.
const FOLDERS: &[&str] = &["proc", "dev", "sys", "tmp", "inputs", "workspace", "run/ringfence", "var/lib", "home", "etc/ssl", "opt", "mnt"];

/// What decides that a kept root is out of date.
const FORMAT: &str = "ringfence host image 1";

/// Finds the kept root below `folder`, or makes it.
pub(super) fn prepare(folder: &Path) -> io::Result<Image> {
    let trees = trees();
    let kept = folder.join(format!("host-{}", &key(&trees)[..32]));
    let digest = match fs::read_to_string(kept.join("digest")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make(folder, &kept, &trees)?;
            fs::read_to_string(kept.join("digest"))?
        }
        read => read?,
    };
    let folders = trees.iter().map(|(name, _)| name.clone()).collect();
    Ok(Image { root: kept.join("root"), trees, layers: Vec::new(), digest, folders, files: Vec::new(), environment: Vec::new() })
}

/// `/usr`, and what is not a link into it on hosts that keep them apart.
fn trees() -> Vec<(String, PathBuf)> {
    let is_own = |name: &str| fs::symlink_metadata(Path::new("/").join(name)).is_ok_and(|m| m.is_dir());
    ["usr", "bin", "sbin", "lib", "lib64", "lib32"]
        .into_iter()
        .filter(|n| is_own(n))
        .map(|n| (n.to_owned(), Path::new("/").join(n)))
        .collect()
}

/// Names the state of the host that the root depends on: cheap to compute at each run.
fn key(trees: &[(String, PathBuf)]) -> String {
    let mut digest = Sha256::new();
    digest.update(FORMAT);
    // Names that a `*` stands for come and go with the folder's own time.
    let exact = COPIED.iter().filter(|pattern| !pattern.ends_with('*')).map(|name| Path::new("/etc").join(name));
    let copied = exact.chain([PathBuf::from("/etc")]);
    let others = PACKAGE_DATABASES.iter().chain(&[OS_RELEASE]).map(PathBuf::from).chain(trees.iter().map(|(_, path)| path.clone()));
    for path in copied.chain(others) {
        digest.update(path.as_os_str().as_encoded_bytes());
        if let Ok(meta) = fs::metadata(&path) {
            let state = [meta.size(), meta.mtime() as u64, meta.mtime_nsec() as u64, meta.ino()];
            state.iter().for_each(|number| digest.update(number.to_le_bytes()));
        }
    }
    hex(&digest.finalize())
}

const OS_RELEASE: &str = "/usr/lib/os-release";

const PACKAGE_DATABASES: &[&str] = &[
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/lib/apk/db/installed",
    "/var/lib/pacman/local",
];

/// The names that `COPIED` may stand for on this host, in order.
fn copied_names() -> io::Result<Vec<String>> {
    let entries: Vec<String> = fs::read_dir("/etc")?.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let mut names: Vec<String> = Vec::new();
    for pattern in COPIED {
        match pattern.strip_suffix('*') {
            Some(prefix) => names.extend(entries.iter().filter(|name| name.starts_with(prefix)).cloned()),
            None => names.push((*pattern).to_owned()),
        }
    }
    names.sort();
    Ok(names)
}

/// Makes the root beside its final place and renames it there, so that two processes at once both end well.
fn make(folder: &Path, kept: &Path, trees: &[(String, PathBuf)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let draft = folder.join(format!("draft-{}-{moment}", std::process::id()));
    let made = make_by_way_of(&draft, kept, trees);
    if made.is_err() {
        // What could not be made whole is not kept; the error is what matters.
        fs::remove_dir_all(&draft).unwrap_or_default();
    }
    made
}

fn make_by_way_of(draft: &Path, kept: &Path, trees: &[(String, PathBuf)]) -> io::Result<()> {
    let root = draft.join("root");
    fs::create_dir_all(&root)?;
    FOLDERS.iter().try_for_each(|name| fs::create_dir_all(root.join(name)))?;
    symlink("/tmp", root.join("var/tmp"))?;
    for name in ["bin", "sbin", "lib", "lib64", "lib32", "libx32"] {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            symlink(target, root.join(name))?;
        }
    }
    trees.iter().try_for_each(|(name, _)| fs::create_dir_all(root.join(name)))?;
    for (name, text) in GENERATED {
        fs::write(root.join("etc").join(name), text)?;
    }
    symlink("../usr/lib/os-release", root.join("etc/os-release"))?;
    symlink("/proc/self/mounts", root.join("etc/mtab"))?;
    for name in copied_names()?.iter().filter(|name| Path::new("/etc").join(name).symlink_metadata().is_ok()) {
        copy(&Path::new("/etc").join(name), &root.join("etc").join(name))?;
    }
    open_to_all(&root)?;
    let mut digest = Sha256::new();
    describe(&root, &mut digest)?;
    for database in PACKAGE_DATABASES.iter().chain(&[OS_RELEASE]) {
        if let Ok(bytes) = fs::read(database) {
            digest.update(database);
            digest.update(Sha256::digest(bytes));
        }
    }
    fs::write(draft.join("digest"), format!("sha256:{}", hex(&digest.finalize())))?;
    match fs::rename(draft, kept) {
        Ok(()) => Ok(()),
        Err(_) if kept.join("digest").exists() => fs::remove_dir_all(draft), // another process was first
        Err(error) => Err(error),
    }
}

const GENERATED: &[(&str, &str)] = &[
    (
        "passwd",
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:1000:1000:agent:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("hostname", "sandbox\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"),
    ("resolv.conf", "# there is no network here\n"),
    ("shells", "/bin/sh\n/bin/bash\n"),
];

/// Copies files that anyone may read, folders and links; anything else is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if meta.is_symlink() && from != Path::new("/etc/localtime") {
        return symlink(fs::read_link(from)?, to);
    }
    if meta.is_dir() {
        fs::create_dir_all(to)?;
        return fs::read_dir(from)?.try_for_each(|entry| {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))
        });
    }
    let meta = fs::metadata(from)?;
    match meta.is_file() && meta.mode() & 0o004 != 0 {
        true => fs::copy(from, to).map(drop),
        false => Ok(()),
    }
}

/// Whoever made the root, with whatever umask: everyone may read it.
fn open_to_all(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let mode = if meta.is_dir() || meta.mode() & 0o111 != 0 { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    match meta.is_dir() {
        true => fs::read_dir(path)?.try_for_each(|entry| open_to_all(&entry?.path())),
        false => Ok(()),
    }
}

/// Adds the content of a tree to a digest: names in order, with links and bytes.
fn describe(folder: &Path, digest: &mut Sha256) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        digest.update(entry.file_name().as_encoded_bytes());
        digest.update(b"\0");
        if kind.is_dir() {
            describe(&path, digest)?;
        } else if kind.is_symlink() {
            digest.update(fs::read_link(&path)?.as_os_str().as_encoded_bytes());
        } else {
            digest.update(Sha256::digest(fs::read(&path)?));
        }
    }
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
