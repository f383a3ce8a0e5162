//! Creations that are asked for once, however often: clients send an `Idempotency-Key` and try again when an answer is lost.
//!
//! What is known of a key lasts as long as its sandbox and stands in memory alone: the answer holds tokens, which are written nowhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use super::error::E2bError;
use super::sandboxes::Sandbox;
use crate::asked::Again;

/// What is known of a key.
#[derive(Debug)]
struct Known {
    request: String,
    /// None while it is being made.
    sandbox: Option<Arc<Sandbox>>,
}

/// Whose key, and the key.
type Key = (String, String);

/// Every key that was sent.
#[derive(Debug, Default)]
pub(crate) struct Creations(Mutex<BTreeMap<Key, Known>>);

/// A creation that is under way; nobody else begins it meanwhile. Dropped before it is done, its key is free again.
#[derive(Debug)]
pub(crate) struct UnderWay<'c> {
    creations: &'c Creations,
    key: Option<Key>,
}

/// What to do for a request.
#[derive(Debug)]
pub(crate) enum Creation<'c> {
    /// Make a sandbox.
    New(UnderWay<'c>),
    /// It was made before, and stands.
    Made(Arc<Sandbox>),
}

impl Creations {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do; a key that was sent with another request, or whose sandbox is being made, is refused.
    pub(crate) fn begin(&self, tenant: &str, again: &Again) -> Result<Creation<'_>, E2bError> {
        let Some(word) = &again.key else { return Ok(Creation::New(UnderWay { creations: self, key: None })) };
        let key = (tenant.to_owned(), word.clone());
        let mut known = self.known();
        known.retain(|_, one| one.sandbox.as_ref().is_none_or(|sandbox| !sandbox.session.is_over()));
        match known.get(&key) {
            None => {
                known.insert(key.clone(), Known { request: again.request.clone(), sandbox: None });
                Ok(Creation::New(UnderWay { creations: self, key: Some(key) }))
            }
            Some(one) if one.request != again.request => Err(E2bError::bad("the Idempotency-Key was sent with another request before")),
            Some(Known { sandbox: Some(sandbox), .. }) => Ok(Creation::Made(sandbox.clone())),
            Some(Known { sandbox: None, .. }) => {
                Err(E2bError::new(StatusCode::CONFLICT, "a sandbox is being made for the same Idempotency-Key; ask again in a while"))
            }
        }
    }
}

impl UnderWay<'_> {
    /// It was made.
    pub(crate) fn done(mut self, sandbox: &Arc<Sandbox>) {
        if let Some(key) = self.key.take()
            && let Some(known) = self.creations.known().get_mut(&key)
        {
            known.sandbox = Some(sandbox.clone());
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.creations.known().remove(key);
        }
    }
}
