//! Credentials at rest: one file each, sealed by a key that is kept elsewhere or, at least, apart.
//!
//! ChaCha20-Poly1305 (RFC 8439) with a random nonce; the credential's name is authenticated with it, so that one file cannot stand in for another.
//! The key comes from the environment, from a file that is named, from the user's kernel keyring (`ringfence:credentials`), or from a file in the
//! home, made at first use: the last keeps values out of backups of `credentials/` alone, and from nobody who reads the whole home.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linux_keyutils::{KeyRing, KeyRingIdentifier};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use crate::error::{At, StoreError};
use crate::home::{Home, draft_of, write_whole};
use crate::journal::now;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// The key's name in the user's keyring.
const KEYRING_NAME: &str = "ringfence:credentials";
/// The form of a file.
const FORM: u32 = 1;

/// Where the key is to come from; the first that is there is taken.
#[derive(Clone, Default)]
pub struct KeySources {
    /// 64 hexadecimal digits, from the environment.
    pub text: Option<String>,
    /// A file that holds them.
    pub file: Option<PathBuf>,
}

impl fmt::Debug for KeySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySources").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The stored credentials of a home.
#[derive(Debug, Clone)]
pub struct Credentials {
    folder: PathBuf,
    own_key: PathBuf,
    sources: KeySources,
}

/// A stored credential without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CredentialRow {
    /// Its name.
    pub name: String,
    /// When it was set.
    pub set_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    form: u32,
    set_at: String,
    nonce: String,
    sealed: String,
}

impl Credentials {
    /// Those of a home.
    pub fn of(home: &Home, sources: KeySources) -> Self {
        Self { folder: home.root().join("credentials"), own_key: home.root().join("keys/credentials.key"), sources }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// Keeps a value under a name that is a plain file name, in place of what was there.
    pub fn set(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce, &path)?;
        let mut sealed = value.as_bytes().to_vec();
        let key = self.key(true)?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name.as_bytes()), &mut sealed)
            .map_err(|_| broken(&path, "it cannot be sealed"))?;
        let file = Sealed { form: FORM, set_at: now(), nonce: STANDARD.encode(nonce), sealed: STANDARD.encode(sealed) };
        let text = serde_json::to_vec(&file).map_err(|error| broken(&path, &error.to_string()))?;
        write_whole(&path, &text, 0o600)
    }

    /// The value under a name, if there is one.
    pub fn get(&self, name: &str) -> Result<Option<String>, StoreError> {
        let path = self.path(name);
        let Some(file) = read(&path)? else { return Ok(None) };
        let nonce = STANDARD.decode(&file.nonce).ok().and_then(|nonce| Nonce::try_assume_unique_for_key(&nonce).ok());
        let nonce = nonce.ok_or_else(|| broken(&path, "its nonce is none"))?;
        let mut bytes = STANDARD.decode(&file.sealed).map_err(|error| broken(&path, &error.to_string()))?;
        let key = self.key(false)?;
        let opened = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut bytes);
        let opened = opened.map_err(|_| broken(&path, "it was sealed by another key, or was changed"))?;
        String::from_utf8(opened.to_vec()).map(Some).map_err(|error| broken(&path, &error.to_string()))
    }

    /// Every credential, by name.
    pub fn list(&self) -> Result<Vec<CredentialRow>, StoreError> {
        let mut rows = Vec::new();
        for entry in fs::read_dir(&self.folder).at("read", &self.folder)?.flatten() {
            let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned) else { continue };
            if let Some(file) = read(&entry.path())? {
                rows.push(CredentialRow { name, set_at: file.set_at });
            }
        }
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(rows)
    }

    /// Forgets one; false if there was none.
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.at("remove", &path).map(|()| true),
        }
    }

    fn key(&self, may_make: bool) -> Result<LessSafeKey, StoreError> {
        let (bytes, place) = self.key_bytes(may_make)?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| broken(&place, "it is no key"))?;
        Ok(LessSafeKey::new(key))
    }

    fn key_bytes(&self, may_make: bool) -> Result<([u8; KEY_BYTES], PathBuf), StoreError> {
        if let Some(text) = &self.sources.text {
            let place = PathBuf::from("RINGFENCE_CREDENTIAL_KEY");
            return Ok((from_hex(text, &place)?, place));
        }
        if let Some(file) = &self.sources.file {
            return Ok((read_key(file)?, file.clone()));
        }
        if let Some(bytes) = in_keyring() {
            return Ok((bytes, PathBuf::from(KEYRING_NAME)));
        }
        match read_key(&self.own_key) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound && may_make => make(&self.own_key)?,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        Ok((read_key(&self.own_key)?, self.own_key.clone()))
    }
}

fn broken(path: &Path, cause: &str) -> StoreError {
    StoreError::Credential { path: path.to_owned(), cause: cause.to_owned() }
}

fn read(path: &Path) -> Result<Option<Sealed>, StoreError> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.at("read", path)?,
    };
    let file: Sealed = serde_json::from_slice(&text).map_err(|error| broken(path, &error.to_string()))?;
    match file.form {
        FORM => Ok(Some(file)),
        other => Err(broken(path, &format!("its form is {other}, this version knows {FORM}"))),
    }
}

fn random(bytes: &mut [u8], path: &Path) -> Result<(), StoreError> {
    let filled = rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty());
    filled.map_err(std::io::Error::from).at("make", path).map(drop)
}

fn from_hex(text: &str, place: &Path) -> Result<[u8; KEY_BYTES], StoreError> {
    let text = text.trim();
    let digits = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..KEY_BYTES).map(|number| digits(number * 2)).collect();
    let bytes = bytes.filter(|_| text.len() == KEY_BYTES * 2 && text.bytes().all(|b| b.is_ascii_hexdigit()));
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| broken(place, "a key has 64 hexadecimal digits"))
}

fn read_key(path: &Path) -> Result<[u8; KEY_BYTES], StoreError> {
    let text = fs::read_to_string(path).at("read", path)?;
    let mode = fs::metadata(path).at("read", path)?.mode();
    match mode & 0o077 {
        0 => from_hex(&text, path),
        _ => Err(broken(path, &format!("its mode is {:o}, so others can read it; chmod 600 it", mode & 0o777))),
    }
}

/// Two processes at first use end with the same key: the file is made once.
fn make(path: &Path) -> Result<(), StoreError> {
    let mut bytes = [0; KEY_BYTES];
    random(&mut bytes, path)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let draft = draft_of(path);
    write_whole(&draft, text.as_bytes(), 0o600)?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft).at("remove", &draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error).at("make", path),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A key that the user put into the kernel's keyring: `keyctl padd user ringfence:credentials @u`.
fn in_keyring() -> Option<[u8; KEY_BYTES]> {
    let ring = KeyRing::from_special_id(KeyRingIdentifier::User, false).ok()?;
    let text = ring.search(KEYRING_NAME).ok()?.read_to_vec().ok()?;
    from_hex(std::str::from_utf8(&text).ok()?, Path::new(KEYRING_NAME)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        (folder, home)
    }

    #[test]
    fn a_value_is_read_back_and_stands_nowhere() {
        let (_folder, home) = home();
        let credentials = Credentials::of(&home, KeySources::default());
        credentials.set("github", "s3cret-value-1").unwrap();
        credentials.set("github", "s3cret-value-2").unwrap();
        assert_eq!(credentials.get("github").unwrap().as_deref(), Some("s3cret-value-2"));
        assert_eq!(credentials.list().unwrap().iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["github"]);
        let text = fs::read_to_string(home.root().join("credentials/github.json")).unwrap();
        assert!(!text.contains("s3cret") && !format!("{credentials:?}").contains("s3cret"));
        assert!(credentials.remove("github").unwrap() && !credentials.remove("github").unwrap());
        assert_eq!(credentials.get("github").unwrap(), None);
    }

    #[test]
    fn another_key_another_name_and_a_changed_byte_open_nothing() {
        let (_folder, home) = home();
        let with = |digit: &str| Credentials::of(&home, KeySources { text: Some(digit.repeat(64)), file: None });
        with("a").set("one", "s3cret-value").unwrap();
        assert!(with("b").get("one").unwrap_err().to_string().contains("another key"));
        fs::copy(home.root().join("credentials/one.json"), home.root().join("credentials/two.json")).unwrap();
        assert!(with("a").get("two").is_err());
        let path = home.root().join("credentials/one.json");
        let mut file: Sealed = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut sealed = STANDARD.decode(&file.sealed).unwrap();
        sealed[0] ^= 1;
        file.sealed = STANDARD.encode(sealed);
        fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        assert!(with("a").get("one").is_err());
        assert!(
            with("a").set("x", "y").is_ok()
                && Credentials::of(&home, KeySources { text: Some("short".into()), file: None }).set("x", "y").is_err()
        );
    }
}
