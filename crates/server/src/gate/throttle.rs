//! How many wrong keys are answered as such: a bucket for each network that asks, and one for all of them. A right key always passes, so that nobody locks out
//! those who share an address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::network_of;
use crate::limits::Limits;

/// Networks that are remembered. Those beyond are held against the common bucket alone.
const MOST_NETWORKS: usize = 4096;

/// The buckets.
#[derive(Debug)]
pub(crate) struct Throttle {
    each: (u32, Duration),
    all: (u32, Duration),
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    of_networks: HashMap<IpAddr, Bucket>,
    of_all: Option<Bucket>,
}

/// When the bucket would be empty of wrong keys: each adds the time for which it counts.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    clear_at: Instant,
}

impl Bucket {
    /// Takes one more, or says how long to wait.
    fn take(&mut self, (most, every): (u32, Duration), now: Instant) -> Result<(), Duration> {
        let clear_at = self.clear_at.max(now) + every;
        let ahead = clear_at - now;
        let room = every * most;
        if ahead > room {
            return Err(ahead - room);
        }
        self.clear_at = clear_at;
        Ok(())
    }
}

impl Throttle {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            each: (limits.wrong_keys_of_one_peer, limits.wrong_key_of_one_peer_every),
            all: (limits.wrong_keys, limits.wrong_key_every),
            buckets: Mutex::default(),
        }
    }

    /// Counts a wrong key, or says how long to wait before the next.
    pub(crate) fn wrong(&self, peer: IpAddr) -> Result<(), Duration> {
        self.wrong_at(peer, Instant::now())
    }

    fn wrong_at(&self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network_of(peer);
        let is_known = buckets.of_networks.contains_key(&network);
        if !is_known && buckets.of_networks.len() >= MOST_NETWORKS {
            buckets.of_networks.retain(|_, bucket| bucket.clear_at > now);
        }
        if is_known || buckets.of_networks.len() < MOST_NETWORKS {
            buckets.of_networks.entry(network).or_insert(Bucket { clear_at: now }).take(self.each, now)?;
        }
        buckets.of_all.get_or_insert(Bucket { clear_at: now }).take(self.all, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_keys_are_answered_so_often_and_then_as_time_goes_by() {
        let throttle = Throttle::of(&Limits::default());
        let (now, one, other) = (Instant::now(), IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert!((0..10).all(|_| throttle.wrong_at(one, now).is_ok()));
        let wait = throttle.wrong_at(one, now).unwrap_err();
        assert_eq!(wait, Duration::from_secs(6));
        assert!(throttle.wrong_at(other, now).is_ok());
        assert!(throttle.wrong_at(one, now + wait).is_ok() && throttle.wrong_at(one, now + wait).is_err());
    }

    #[test]
    fn many_networks_together_are_held_as_well_and_take_no_more_memory() {
        let throttle = Throttle::of(&Limits::default());
        let now = Instant::now();
        let passed = (0..6000u32).filter(|at| throttle.wrong_at(IpAddr::from(at.to_be_bytes()), now).is_ok()).count();
        assert_eq!(passed, 100);
        assert!(throttle.buckets.lock().unwrap().of_networks.len() <= MOST_NETWORKS);
    }
}
