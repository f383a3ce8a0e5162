//! Addresses that no name may lead to, and the ranges that an operator excepts from that.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lattice::{Element, Set};
use crate::names::text_type;

/// Why a range was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of addresses; write ADDRESS/BITS with no bit set behind, such as `10.20.0.0/16`")]
pub struct RangeError(String);

/// A range of addresses, such as `10.0.0.0/8` (RFC 4632).
///
/// INVARIANT (canonical): no bit of the address behind the prefix is set, and an IPv4 address is not written as IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let bad = || RangeError(text.escape_debug().to_string());
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bits: u8 = bits.parse().map_err(|_| bad())?;
        let is_whole = bits <= width(address) && masked(number(address), bits, width(address)) == number(address);
        match is_whole && address.to_canonical() == address {
            true => Ok(Self { address, bits }),
            false => Err(bad()),
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn masked(number: u128, bits: u8, width: u8) -> u128 {
    number.checked_shr(u32::from(width - bits)).and_then(|kept| kept.checked_shl(u32::from(width - bits))).unwrap_or(0)
}

impl AddressRange {
    /// True if the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let width = width(self.address);
        width == self::width(address) && masked(number(address), self.bits, width) == number(self.address)
    }
}

impl Element for AddressRange {
    fn meet(&self, other: &Self) -> Option<Self> {
        let (wide, narrow) = if self.bits <= other.bits { (self, other) } else { (other, self) };
        wide.contains(narrow.address).then_some(*narrow)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

text_type!(AddressRange: RangeError);

/// Ranges that no name may lead to, and why (IANA's special-purpose registries, RFC 6890; the metadata addresses of clouds are in them).
pub const REFUSED_RANGES: &[(&str, &str)] = &[
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, metadata of clouds"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments, metadata of clouds"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "relays to IPv6"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarks"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved and broadcast"),
    ("168.63.129.16/32", "metadata of a cloud"),
    ("::/96", "this host, and IPv4 written as IPv6"),
    ("::ffff:0:0:0/96", "IPv4 by translation"),
    ("64:ff9b::/96", "IPv4 by translation"),
    ("64:ff9b:1::/48", "IPv4 by translation"),
    ("100::/64", "discarded"),
    ("2001::/23", "protocol assignments and tunnels"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "IPv4 by tunnels"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "private, metadata of clouds"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("::/3", "not given out"),
    ("4000::/2", "not given out"),
    ("8000::/1", "not given out"),
];

/// Why an address is refused to every name, unless the operator's exceptions hold it. An IPv4 address inside an IPv6 one counts as what it is.
pub fn refused_range(address: IpAddr, exceptions: &Set<AddressRange>) -> Option<&'static str> {
    let address = address.to_canonical();
    let is_excepted = match exceptions {
        Set::All => false,
        Set::Only(listed) => listed.iter().any(|range| range.contains(address)),
    };
    if is_excepted {
        return None;
    }
    let holds = |text: &str| text.parse::<AddressRange>().is_ok_and(|range| range.contains(address));
    REFUSED_RANGES.iter().find(|(range, _)| holds(range)).map(|(_, why)| *why).or_else(|| embedded(address, exceptions))
}

/// Forms of IPv6 that carry an IPv4 address somewhere routers may take it out again.
fn embedded(address: IpAddr, exceptions: &Set<AddressRange>) -> Option<&'static str> {
    let IpAddr::V6(address) = address else { return None };
    let parts = address.segments();
    match parts[4..6] {
        // ISATAP, RFC 5214
        [0 | 0x200, 0x5efe] => refused_range(IpAddr::V4(last_four(address)), exceptions),
        _ => None,
    }
}

fn last_four(address: Ipv6Addr) -> Ipv4Addr {
    let bytes = address.octets();
    Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(address: &str, exceptions: &[&str]) -> Option<&'static str> {
        refused_range(address.parse().unwrap(), &Set::only(exceptions.iter().map(|text| text.parse().unwrap())))
    }

    #[test]
    fn every_range_of_the_table_reads() {
        assert!(REFUSED_RANGES.iter().all(|(range, _)| range.parse::<AddressRange>().is_ok()));
    }

    #[test]
    fn addresses_that_are_not_the_internets_are_refused() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "2606:4700::5efe:7f00:1",
            "198.18.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b:1::7f00:1",
            "64:ff9b:2::7f00:1",
            "2001:0:7f00:1::1",
            "fec0::1",
            "100:0:0:1::1",
            "1::1",
            "4000::1",
            "8000::7f00:1",
            "fe00::1",
        ] {
            assert!(why(address, &[]).is_some(), "{address}");
        }
        for address in ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8"] {
            assert_eq!(why(address, &[]), None, "{address}");
        }
    }

    #[test]
    fn an_exception_holds_for_its_range_alone() {
        assert_eq!(why("10.20.1.1", &["10.20.0.0/16"]), None);
        assert_eq!(why("::ffff:10.20.1.1", &["10.20.0.0/16"]), None);
        assert!(why("10.21.1.1", &["10.20.0.0/16"]).is_some());
        assert!(refused_range("10.0.0.1".parse().unwrap(), &Set::All).is_some());
        assert!("10.0.0.1/8".parse::<AddressRange>().is_err() && "::ffff:10.0.0.0/104".parse::<AddressRange>().is_err());
    }
}
