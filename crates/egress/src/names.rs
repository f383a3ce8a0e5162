//! Names that stand for addresses of the loopback interface inside, so that programs that know of no proxy find the broker.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use ringfence_policy::HostName;

/// The first address of the range (RFC 2544); the last is 198.19.255.255.
pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Bits of its prefix.
pub(crate) const BITS: u8 = 15;
/// Names of one run. Whoever asks for names below a wildcard can ask for as many as they like.
const MOST: u32 = 8192;

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<HostName, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, HostName>,
    given: u32,
}

impl Table {
    /// The next address that stands for nothing: a rule may name one of the range as it is.
    fn free(&mut self) -> Ipv4Addr {
        loop {
            self.given += 1;
            let address = Ipv4Addr::from_bits(FIRST.to_bits() + self.given);
            if !self.by_address.contains_key(&address) {
                return address;
            }
        }
    }
}

/// Which name has which address, for one run.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Table>);

impl Names {
    /// The address of a name, a new one if it has none; `None` if all are given away. A name that is an address stands for itself.
    pub(crate) fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = table.by_name.get(name) {
            return Some(*address);
        }
        let address = match name.address() {
            Some(std::net::IpAddr::V4(address)) => address,
            Some(std::net::IpAddr::V6(_)) => return None,
            None if table.given >= MOST => return None,
            None => table.free(),
        };
        table.by_name.insert(name.clone(), address);
        table.by_address.insert(address, name.clone());
        Some(address)
    }

    /// The name that an address stands for.
    pub(crate) fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_address.get(&address).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_a_rule_names_stands_for_nothing_else() {
        let names = Names::default();
        let literal: HostName = "198.18.0.2".parse().unwrap();
        assert_eq!(names.address_of(&literal), Some(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(names.address_of(&"a.example.com".parse().unwrap()), Some(Ipv4Addr::new(198, 18, 0, 3)));
        assert_eq!(names.name_of(Ipv4Addr::new(198, 18, 0, 2)), Some(literal));
    }
}
