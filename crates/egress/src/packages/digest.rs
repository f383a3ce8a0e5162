//! Hashes of files: as an index or a lock file names them, and as the bytes have them.

use std::fmt;
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest as _;

/// How a hash was made. The order is that of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Known to collide; old Node packages have no other.
    Sha1,
    /// The usual one.
    Sha256,
    /// Node's.
    Sha512,
}

impl Algorithm {
    /// The word before the digits.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Sha1, Self::Sha256, Self::Sha512].into_iter().find(|algorithm| algorithm.word() == word)
    }
}

/// One hash of a file.
///
/// INVARIANT (digits): as many lower-case hexadecimal digits as its algorithm has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHash {
    algorithm: Algorithm,
    digits: String,
}

impl FileHash {
    /// Reads hexadecimal digits.
    pub fn from_digits(algorithm: Algorithm, digits: &str) -> Option<Self> {
        let is_whole = digits.len() == algorithm.bytes() * 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_whole.then(|| Self { algorithm, digits: digits.to_ascii_lowercase() })
    }

    /// Reads `sha256:DIGITS`.
    pub fn from_prefixed(text: &str) -> Option<Self> {
        let (word, digits) = text.split_once(':')?;
        Self::from_digits(Algorithm::read(word)?, digits)
    }

    /// Reads Node's form, `sha512-BASE64`, of which there may be several with spaces between them. Those of the strongest algorithm count.
    pub fn from_integrity(text: &str) -> Vec<Self> {
        let read = |word: &str| {
            let (name, rest) = word.split_once('-')?;
            let bytes = STANDARD.decode(rest.split('?').next()?).ok()?;
            Self::from_digits(Algorithm::read(name)?, &hexadecimal(&bytes))
        };
        let all: Vec<Self> = text.split_ascii_whitespace().filter_map(read).collect();
        let strongest = all.iter().map(|hash| hash.algorithm).max();
        all.into_iter().filter(|hash| Some(hash.algorithm) == strongest).collect()
    }

    /// How it was made.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hexadecimal digits.
    pub fn digits(&self) -> &str {
        &self.digits
    }
}

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.word(), self.digits)
    }
}

/// What the bytes of one file hash to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digests {
    sha1: FileHash,
    sha256: FileHash,
    sha512: FileHash,
    bytes: u64,
}

impl Digests {
    /// Reads to the end.
    pub(crate) fn of(mut source: impl Read) -> io::Result<Self> {
        let mut digester = Digester::default();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match source.read(&mut buffer)? {
                0 => return Ok(digester.finish()),
                read => digester.update(&buffer[..read]),
            }
        }
    }

    pub(crate) fn of_algorithm(&self, algorithm: Algorithm) -> &FileHash {
        match algorithm {
            Algorithm::Sha1 => &self.sha1,
            Algorithm::Sha256 => &self.sha256,
            Algorithm::Sha512 => &self.sha512,
        }
    }

    pub(crate) fn each(&self) -> [&FileHash; 3] {
        [&self.sha1, &self.sha256, &self.sha512]
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if the file has this hash.
    pub(crate) fn has(&self, hash: &FileHash) -> bool {
        self.of_algorithm(hash.algorithm) == hash
    }

    /// True if the file has each of these hashes, and there is one.
    pub(crate) fn has_all(&self, hashes: &[FileHash]) -> bool {
        !hashes.is_empty() && hashes.iter().all(|hash| self.has(hash))
    }
}

/// Digests in the making.
#[derive(Debug, Default)]
pub(crate) struct Digester {
    sha1: sha1::Sha1,
    sha256: sha2::Sha256,
    sha512: sha2::Sha512,
    bytes: u64,
}

impl Digester {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha1.update(bytes);
        self.sha256.update(bytes);
        self.sha512.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> Digests {
        let hash = |algorithm, bytes: &[u8]| FileHash { algorithm, digits: hexadecimal(bytes) };
        Digests {
            sha1: hash(Algorithm::Sha1, &self.sha1.finalize()),
            sha256: hash(Algorithm::Sha256, &self.sha256.finalize()),
            sha512: hash(Algorithm::Sha512, &self.sha512.finalize()),
            bytes: self.bytes,
        }
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_only_whole() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(FileHash::from_prefixed(&format!("sha256:{}", empty.to_uppercase())).unwrap().digits(), empty);
        assert!(Digests::of(&b""[..]).unwrap().has(&FileHash::from_digits(Algorithm::Sha256, empty).unwrap()));
        for bad in ["sha256:", "sha256:00", "md5:d41d8cd98f00b204e9800998ecf8427e", &empty[1..]] {
            assert_eq!(FileHash::from_prefixed(bad), None, "{bad}");
        }
    }

    #[test]
    fn of_several_integrities_the_strongest_count() {
        let digests = Digests::of(&b"x"[..]).unwrap();
        let bytes = |hash: &FileHash| -> Vec<u8> {
            let digits = |at| &hash.digits[at..at + 2];
            (0..hash.digits.len()).step_by(2).map(|at| u8::from_str_radix(digits(at), 16).unwrap()).collect()
        };
        let form = |hash: &FileHash| format!("{}-{}", hash.algorithm.word(), STANDARD.encode(bytes(hash)));
        let text = format!("{} {}", form(&digests.sha1), form(&digests.sha512));
        assert_eq!(FileHash::from_integrity(&text), [digests.sha512]);
        assert_eq!(FileHash::from_integrity("sha512-AAAA md5-x"), []);
    }
}
