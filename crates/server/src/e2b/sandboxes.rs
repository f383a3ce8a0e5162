//! What the server knows of each sandbox beside its session: who may reach it, and by which token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ringfence_control::Session;
use sha2::{Digest, Sha256};

use super::envd::Watchers;
use crate::serving::Serving;

/// A sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Its name: that of its first run, also when it was paused and goes on in another one.
    pub(crate) id: String,
    /// Its session.
    pub(crate) session: Arc<Session>,
    /// The template by which it was asked for.
    pub(crate) template: String,
    /// What must be shown to reach the daemon in it; nothing where the client asked for that.
    pub(crate) token: Option<String>,
    /// What must be shown to reach the code interpreter, and every other port where it is not public.
    pub(crate) traffic_token: String,
    /// Whether its ports are open to everyone who knows its name.
    pub(crate) is_public: bool,
    /// What it was asked with, to be asked with again once it was paused.
    pub(crate) asked: super::control::Asked,
    /// Folders that are watched for clients who ask now and then.
    pub(crate) watchers: Watchers,
    /// Names of the code contexts for cells that name none, by their language.
    pub(crate) usual_contexts: tokio::sync::Mutex<BTreeMap<&'static str, String>>,
}

/// What a client is about to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// A link to one file, signed with the token of its sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) path: &'a str,
    pub(crate) operation: Operation,
    pub(crate) user: &'a str,
    /// When it expires: seconds since 1970, as it was written.
    pub(crate) expiry: Option<&'a str>,
    pub(crate) signature: &'a str,
}

impl Sandbox {
    /// A session that was made by our own API, reached at its ports as any sandbox is. Its daemon has a token that nobody is told.
    pub(crate) fn known(serving: &Serving, session: Arc<Session>, template: String, is_public: bool) -> std::io::Result<Arc<Self>> {
        let sandbox = Arc::new(Self {
            id: session.run.to_string(),
            session,
            template,
            token: Some(new_token()?),
            traffic_token: new_token()?,
            is_public,
            asked: super::control::Asked::default(),
            watchers: Watchers::default(),
            usual_contexts: tokio::sync::Mutex::default(),
        });
        serving.sandboxes.add(sandbox.clone());
        Ok(sandbox)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether a token opens the daemon.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        self.token.as_deref().is_some_and(|token| is_same(token, given))
    }

    /// Whether a link was signed with its token: version 1 of E2B's signatures.
    pub(crate) fn signed(&self, link: &Signed<'_>) -> bool {
        let Some(token) = &self.token else { return false };
        let expiry = link.expiry.map(|expiry| format!(":{expiry}")).unwrap_or_default();
        let text = format!("{}:{}:{}:{token}{expiry}", link.path, link.operation.word(), link.user);
        let signature = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
        is_same(&signature, link.signature.trim_end_matches('='))
    }
}

/// Compares in a time that tells nothing of where two texts differ.
pub(crate) fn is_same(known: &str, given: &str) -> bool {
    let (known, given) = (Sha256::digest(known), Sha256::digest(given));
    known.iter().zip(given.iter()).fold(0u8, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// A secret of 256 bits, as 64 hexadecimal digits.
pub(crate) fn new_token() -> std::io::Result<String> {
    let mut bytes = [0u8; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Every sandbox that was made for a client of E2B.
#[derive(Debug, Default)]
pub(crate) struct Sandboxes(Mutex<BTreeMap<String, Arc<Sandbox>>>);

impl Sandboxes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Sandbox>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, sandbox: Arc<Sandbox>) {
        let mut known = self.known();
        known.retain(|_, sandbox| !sandbox.session.is_over());
        known.insert(sandbox.id().to_owned(), sandbox);
    }

    /// One that stands.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.known().get(id).filter(|sandbox| !sandbox.session.is_over()).cloned()
    }

    /// Every one that stands, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.known().values().filter(|sandbox| !sandbox.session.is_over()).cloned().collect()
    }

    /// The one with whose token a link was signed.
    pub(crate) fn of_signature(&self, link: &Signed<'_>) -> Option<Arc<Sandbox>> {
        self.all().into_iter().find(|sandbox| sandbox.signed(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_or_not() {
        assert!(is_same("abc", "abc") && !is_same("abc", "abd") && !is_same("abc", "abcd") && !is_same("abc", ""));
    }

    #[test]
    fn tokens_are_never_the_same() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert!(one.len() == 64 && one != other);
    }
}
