//! Keys in files. The one that seals evidence is made at first use, in the home; those of persons are made in files of their own, outside of it. Only the
//! owner of the file reads a private key.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_evidence::{PublicKey, SigningKey};
use rustix::fs::OFlags;

use crate::error::{At, StoreError};
use crate::home::{Home, draft_of, write_whole};

fn paths(home: &Home) -> (PathBuf, PathBuf) {
    let folder = home.root().join("keys");
    (folder.join("evidence.key"), folder.join("evidence.pub"))
}

/// Reads the key, or makes it. Two processes at first use end with the same key: the private file is made once.
pub fn load_or_make_key(home: &Home) -> Result<SigningKey, StoreError> {
    let (private, public) = paths(home);
    let key = match read_private(&private) {
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => make(&private)?,
        read => read?,
    };
    if !public.exists() {
        let pem = key.public().to_pem().map_err(|e| StoreError::Key { path: public.clone(), cause: e.to_string() })?;
        write_whole(&public, pem.as_bytes(), 0o644)?;
    }
    Ok(key)
}

fn read_private(path: &Path) -> Result<SigningKey, StoreError> {
    let text = fs::read_to_string(path).at("read", path)?;
    let mode = fs::metadata(path).at("read", path)?.mode();
    if mode & 0o077 != 0 {
        return Err(StoreError::Key {
            path: path.to_owned(),
            cause: format!("its mode is {:o}, so others can read it; chmod 600 it", mode & 0o777),
        });
    }
    SigningKey::from_pem(&text).map_err(|e| StoreError::Key { path: path.to_owned(), cause: e.to_string() })
}

fn make(path: &Path) -> Result<SigningKey, StoreError> {
    let pem = random_key(path)?.expose_pem().map_err(|e| StoreError::Key { path: path.to_owned(), cause: e.to_string() })?;
    let draft = draft_of(path);
    write_whole(&draft, pem.as_bytes(), 0o600)?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft).at("remove", &draft)?;
    match linked {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e).at("make", path),
        Ok(()) | Err(_) => read_private(path),
    }
}

fn random_key(path: &Path) -> Result<SigningKey, StoreError> {
    let mut seed = [0u8; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from).at("make", path)?;
    Ok(SigningKey::from_seed(&seed))
}

/// Reads a public key from a PEM file.
pub fn read_public_key(path: &Path) -> Result<PublicKey, StoreError> {
    let is_plain = fs::metadata(path).at("read", path)?.is_file();
    if !is_plain {
        return Err(StoreError::Key { path: path.to_owned(), cause: "it is not a regular file".into() });
    }
    let text = fs::read_to_string(path).at("read", path)?;
    PublicKey::from_pem(&text).map_err(|e| StoreError::Key { path: path.to_owned(), cause: e.to_string() })
}

/// Makes a person's private key: a new file, outside of the home, that only its owner reads. A file that is there is never replaced.
pub fn make_private_key(home: &Home, path: &Path) -> Result<SigningKey, StoreError> {
    let path = &std::path::absolute(path).at("make", path)?;
    let folder = path.parent().ok_or_else(|| key_place(path, "it is no file"))?;
    refuse_beneath(home, folder, path)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).at("make", folder)?;
    // What was missing may have been made in another place by now, through a link.
    refuse_beneath(home, folder, path)?;
    let key = random_key(path)?;
    let pem = key.expose_pem().map_err(|e| key_place(path, &e.to_string()))?;
    let mut file = match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(key_place(path, "a file of that name is there")),
        made => made.at("make", path)?,
    };
    let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key is of no use; the error is what matters.
        fs::remove_file(path).unwrap_or_default();
    }
    written.at("write", path).map(|()| key)
}

/// Whoever copies a home must not have the keys of those who approve.
fn refuse_beneath(home: &Home, folder: &Path, path: &Path) -> Result<(), StoreError> {
    let there = folder.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    match there.is_some_and(|there| there.starts_with(home.root())) {
        true => {
            Err(key_place(path, &format!("it is beneath the home `{}`, which holds no private key of a person", home.root().display())))
        }
        false => Ok(()),
    }
}

fn key_place(path: &Path, cause: &str) -> StoreError {
    StoreError::KeyPlace { path: path.to_owned(), cause: cause.to_owned() }
}

/// Reads a person's private key: a regular file of the user's own that nobody else can read. What is looked at is what is read.
pub fn read_private_key(path: &Path) -> Result<SigningKey, StoreError> {
    const LONGEST: u64 = 64 << 10;
    let refused = |cause: String| StoreError::Key { path: path.to_owned(), cause };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(refused("it is a symbolic link, not a regular file".into()));
        }
        opened => opened.at("read", path)?,
    };
    let meta = file.metadata().at("read", path)?;
    if !meta.is_file() {
        return Err(refused("it is not a regular file".into()));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(format!("it belongs to user {}, not to you", meta.uid())));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(refused(format!("its mode is {:o}, so others can read it; chmod 600 it", meta.mode() & 0o777)));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).at("read", path)?;
    SigningKey::from_pem(&text).map_err(|e| refused(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        (folder, home)
    }

    #[test]
    fn a_private_key_is_made_once_for_its_owner_alone_and_outside_of_the_home() {
        let (folder, home) = home();
        let path = folder.path().join("config/anna.key");
        let key = make_private_key(&home, &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_private_key(&path).unwrap().public(), key.public());
        assert!(make_private_key(&home, &path).unwrap_err().to_string().contains("a file of that name is there"));
        assert_eq!(read_private_key(&path).unwrap().public(), key.public());
        std::os::unix::fs::symlink(home.root(), folder.path().join("link")).unwrap();
        for inside in ["home/anna.key", "home/new/folder/anna.key", "link/anna.key", "config/../home/keys/anna.key"] {
            let refused = make_private_key(&home, &folder.path().join(inside)).unwrap_err();
            assert!(refused.to_string().contains("beneath the home") && refused.hint().contains("--key"), "{inside}: {refused}");
        }
        assert!(!home.root().join("new").exists());
    }

    #[test]
    fn a_private_key_that_others_could_have_is_not_read() {
        let (folder, home) = home();
        let path = folder.path().join("anna.key");
        make_private_key(&home, &path).unwrap();
        let cause = |path: &Path| read_private_key(path).unwrap_err().to_string();
        for mode in [0o640, 0o604, 0o622] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(cause(&path).contains(&format!("mode is {mode:o}")), "{}", cause(&path));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(read_private_key(&path).is_ok());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12), None).unwrap();
            assert!(cause(&path).contains("belongs to user 12"), "{}", cause(&path));
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
        let link = folder.path().join("link.key");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(cause(&link).contains("symbolic link"));
        assert!(cause(folder.path()).contains("not a regular file"));
        let other = folder.path().join("other.key");
        fs::write(&other, "-----BEGIN PUBLIC KEY-----\n").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(cause(&other).contains("not an Ed25519 key"));
    }
}
