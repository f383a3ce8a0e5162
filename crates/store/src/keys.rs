//! The key that seals evidence: made at first use, in a file that only its owner reads.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_evidence::{PublicKey, SigningKey};

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
    let mut seed = [0u8; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from).at("make", path)?;
    let pem = SigningKey::from_seed(&seed).expose_pem().map_err(|e| StoreError::Key { path: path.to_owned(), cause: e.to_string() })?;
    let draft = draft_of(path);
    write_whole(&draft, pem.as_bytes(), 0o600)?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft).at("remove", &draft)?;
    match linked {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e).at("make", path),
        Ok(()) | Err(_) => read_private(path),
    }
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
