//! The Ed25519 key that seals evidence. Public keys are PEM (SubjectPublicKeyInfo, RFC 8410), as openssl and others read them; a key's id is the
//! SHA-256 of that structure in DER.

use std::fmt;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes};
use ed25519_dalek::{Signature, Signer};

use crate::digest::Digest;

/// Why a key was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 key in PEM form: {0}")]
pub struct KeyError(String);

/// A key that signs. Its `Debug` shows the public part only.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().id())
    }
}

impl SigningKey {
    /// The key of 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Reads PKCS #8 PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        ed25519_dalek::SigningKey::from_pkcs8_pem(text).map(Self).map_err(|e| KeyError(e.to_string()))
    }

    /// Writes PKCS #8 PEM: a secret. The public part is left out of it: openssl reads no other form.
    pub fn expose_pem(&self) -> Result<String, KeyError> {
        let secret = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        secret.to_pkcs8_pem(LineEnding::LF).map(|pem| pem.as_str().to_owned()).map_err(|e| KeyError(e.to_string()))
    }

    /// The public part.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

/// A key that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(ed25519_dalek::VerifyingKey);

impl PublicKey {
    /// Reads PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        ed25519_dalek::VerifyingKey::from_public_key_pem(text).map(Self).map_err(|e| KeyError(e.to_string()))
    }

    /// Writes PEM.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        self.0.to_public_key_pem(LineEnding::LF).map_err(|e| KeyError(e.to_string()))
    }

    /// The key's id: 64 hexadecimal digits.
    pub fn id(&self) -> String {
        self.0.to_public_key_der().map_or_else(|_| String::new(), |der| Digest::of(der.as_bytes()).hex())
    }

    pub(crate) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature).is_ok_and(|signature| self.0.verify_strict(bytes, &signature).is_ok())
    }
}
