//! How many connections there are, in all and from one network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections.
#[derive(Debug)]
pub(super) struct Peers {
    most: usize,
    most_of_one: usize,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    all: usize,
    of_one: HashMap<IpAddr, usize>,
}

/// A connection's place among the others, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    peers: Arc<Peers>,
    network: IpAddr,
}

impl Peers {
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, counted: Mutex::default() })
    }

    /// A place for one more, if there is one.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let network = network_of(peer);
        let mut counted = self.counted();
        let here = counted.of_one.get(&network).copied().unwrap_or(0);
        if counted.all >= self.most || here >= self.most_of_one {
            return None;
        }
        counted.all += 1;
        counted.of_one.insert(network, here + 1);
        drop(counted);
        Some(Place { peers: self.clone(), network })
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counted = self.peers.counted();
        counted.all = counted.all.saturating_sub(1);
        match counted.of_one.get_mut(&self.network) {
            Some(here) if *here > 1 => *here -= 1,
            Some(_) | None => drop(counted.of_one.remove(&self.network)),
        }
    }
}

/// What counts as one peer: an address of IPv4, a /64 of IPv6.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_cannot_take_every_place() {
        let peers = Peers::new(3, 2);
        let enter = |address: &str| peers.enter(address.parse().unwrap());
        let (first, second) = (enter("2001:db8::1"), enter("2001:db8::2"));
        assert!(first.is_some() && second.is_some() && enter("2001:db8::3").is_none());
        let third = enter("10.0.0.1");
        assert!(third.is_some() && enter("10.0.0.2").is_none());
        drop(second);
        assert!(enter("::ffff:10.0.0.1").is_some());
        drop((first, third));
        assert_eq!(peers.counted().all, 0);
        assert!(peers.counted().of_one.is_empty());
    }
}
