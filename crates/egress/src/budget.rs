//! How much may cross in one run: bytes both ways, and connections and requests, refused ones among them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is left.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: AtomicU64,
    requests: AtomicU64,
    is_out_of_bytes: AtomicBool,
    is_out_of_requests: AtomicBool,
}

impl Budget {
    pub(crate) fn new(bytes: u64, requests: u64) -> Self {
        Self {
            bytes: AtomicU64::new(bytes),
            requests: AtomicU64::new(requests),
            is_out_of_bytes: AtomicBool::new(false),
            is_out_of_requests: AtomicBool::new(false),
        }
    }

    /// Takes one request; false if there is none left.
    pub(crate) fn take_request(&self) -> bool {
        take(&self.requests, 1, &self.is_out_of_requests)
    }

    /// Takes none, and says whether there is one left.
    pub(crate) fn has_request(&self) -> bool {
        let is_there = self.requests.load(Ordering::Relaxed) > 0;
        self.is_out_of_requests.fetch_or(!is_there, Ordering::Relaxed);
        is_there
    }

    /// Takes bytes that are about to be passed on; false if they are more than is left.
    pub(crate) fn take_bytes(&self, bytes: u64) -> bool {
        take(&self.bytes, bytes, &self.is_out_of_bytes)
    }

    pub(crate) fn is_out_of_bytes(&self) -> bool {
        self.is_out_of_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_out_of_requests(&self) -> bool {
        self.is_out_of_requests.load(Ordering::Relaxed)
    }
}

fn take(left: &AtomicU64, wanted: u64, is_out: &AtomicBool) -> bool {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(wanted)).is_ok();
    if !taken {
        is_out.store(true, Ordering::Relaxed);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_exceeded() {
        let budget = Budget::new(10, 1);
        assert!(budget.take_bytes(10) && !budget.is_out_of_bytes());
        assert!(!budget.take_bytes(1) && budget.is_out_of_bytes());
        assert!(budget.take_request() && !budget.take_request() && budget.is_out_of_requests());
    }
}
