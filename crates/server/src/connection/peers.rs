//! How many connections there are, in all and from one network; and which of them makes room when there are no more places: the one that has rested longest
//! between two requests. One that is being answered, or has not asked yet, keeps its place: the limits of heads, bodies and answers are about those.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Counts connections.
#[derive(Debug)]
pub(super) struct Peers {
    most: usize,
    most_of_one: usize,
    /// Numbers connections, and the moments at which they come to rest.
    turns: AtomicU64,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    all: HashMap<u64, Arc<Seat>>,
    of_one: HashMap<IpAddr, usize>,
}

/// What is known of one connection.
#[derive(Debug)]
struct Seat {
    network: IpAddr,
    /// The turn at which it came to rest; 0 while it does not rest.
    rests_since: AtomicU64,
    /// It went on in another protocol, and never rests.
    is_opaque: AtomicBool,
    is_wanted: Notify,
}

/// A connection's place among the others, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    peers: Arc<Peers>,
    number: u64,
    seat: Arc<Seat>,
}

impl Peers {
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, turns: AtomicU64::new(1), counted: Mutex::default() })
    }

    /// A place for one more, if there is one or somebody who rests can give one up.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let network = network_of(peer);
        let mut counted = self.counted();
        if counted.of_one.get(&network).is_some_and(|here| *here >= self.most_of_one) {
            counted.make_room(Some(network))?;
        }
        if counted.all.len() >= self.most {
            counted.make_room(None)?;
        }
        let number = self.turn();
        let seat = Arc::new(Seat { network, rests_since: AtomicU64::new(0), is_opaque: AtomicBool::new(false), is_wanted: Notify::new() });
        counted.all.insert(number, seat.clone());
        *counted.of_one.entry(network).or_default() += 1;
        drop(counted);
        Some(Place { peers: self.clone(), number, seat })
    }

    fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// Asks the one that has rested longest to end, of one network or of all. Its place is free from now on.
    fn make_room(&mut self, network: Option<IpAddr>) -> Option<()> {
        let resting = self.all.iter().filter(|(_, seat)| network.is_none_or(|network| seat.network == network));
        let resting = resting.map(|(number, seat)| (seat.rests_since.load(Ordering::Acquire), *number)).filter(|(since, _)| *since > 0);
        let (_, longest) = resting.min()?;
        self.leave(longest).map(|seat| seat.is_wanted.notify_one())
    }

    fn leave(&mut self, number: u64) -> Option<Arc<Seat>> {
        let seat = self.all.remove(&number)?;
        match self.of_one.get_mut(&seat.network) {
            Some(here) if *here > 1 => *here -= 1,
            Some(_) | None => drop(self.of_one.remove(&seat.network)),
        }
        Some(seat)
    }
}

impl Place {
    /// It is being answered from now on.
    pub(super) fn work(&self) {
        self.seat.rests_since.store(0, Ordering::Release);
    }

    /// It goes on in another protocol: whoever passes that on holds the place, and it makes no room.
    pub(crate) fn go_opaque(&self) {
        self.seat.is_opaque.store(true, Ordering::Release);
        self.work();
    }

    /// It was answered, and nothing is asked.
    pub(super) fn rest(&self) {
        if self.seat.is_opaque.load(Ordering::Acquire) {
            return;
        }
        self.seat.rests_since.store(self.peers.turn(), Ordering::Release);
    }

    /// Waits until somebody else needs the place.
    pub(super) async fn is_wanted(&self) {
        self.seat.is_wanted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.peers.counted().leave(self.number));
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
        assert!(peers.counted().all.is_empty());
        assert!(peers.counted().of_one.is_empty());
    }

    #[test]
    fn who_has_rested_longest_makes_room_and_nobody_else() {
        let is_asked = |place: &Place| {
            let wanted = std::pin::pin!(place.is_wanted());
            wanted.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        let peers = Peers::new(3, 2);
        let counts = || {
            let counted = peers.counted();
            (counted.all.len(), counted.of_one.len())
        };
        let enter = |address: &str| peers.enter(address.parse().unwrap());
        let (one, two, other) = (enter("10.0.0.1").unwrap(), enter("10.0.0.1").unwrap(), enter("10.0.0.2").unwrap());
        assert!(enter("10.0.0.3").is_none(), "nobody rests");
        for place in [&other, &one, &two] {
            place.rest();
        }
        one.work();
        one.rest();
        // The network that is full makes room for itself.
        let third = enter("10.0.0.1").unwrap();
        assert!(is_asked(&two) && !is_asked(&one) && !is_asked(&other));
        let fourth = enter("10.0.0.3").unwrap();
        assert!(is_asked(&other) && !is_asked(&one));
        one.work();
        assert!(enter("10.0.0.4").is_none(), "who is answered stays");
        drop((two, other));
        assert_eq!(counts(), (3, 2), "who made room frees nothing twice");
        drop((one, third, fourth));
        assert_eq!(counts(), (0, 0));
    }
}
