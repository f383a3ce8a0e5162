//! What destinations can it reach, by the ways that lead outside: each that is declared is not refused, everything else is, in every way.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ringfence_policy::Destination;

use super::super::answer::Item;
use super::super::attempts::{ADDRESSES, LISTENING};
use super::super::facts::Facts;
use super::super::ways::{self, Place};
use super::Case;

/// The kernel's answers where nobody listens, and where nobody has answered yet.
const NOBODY: i32 = 111; // ECONNREFUSED
const SILENT: i32 = 110; // ETIMEDOUT
/// The name server's answer about a name that is none, and the reply of SOCKS 5 to what a rule is against.
const NO_SUCH_NAME: &str = "3";
const REFUSED: &str = "2";

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let mut items = vec![listening(case), addresses(case)];
    match ways::listed(&case.declared.capabilities).as_slice() {
        [] => items.push(no_proxy(case)),
        listed => {
            items.extend(allowed(case, listed));
            items.push(refused(case));
            items.extend(known_name(case));
            items.push(names(case));
        }
    }
    items
}

/// Nothing listens but what the plan hands out; what the probe itself makes is closed again.
fn listening(case: &Case<'_>) -> Item {
    let declared: Vec<String> = case.declared.doors.iter().cloned().collect();
    let declared = if declared.is_empty() { "nothing".to_owned() } else { declared.join(", ") };
    let found: BTreeSet<String> = LISTENING.iter().flat_map(|tried| sockets(case.looked, tried)).collect();
    let (tcp, udp) = (case.looked.worked(LISTENING[0]), case.looked.worked(LISTENING[1]));
    let extra: Vec<String> = found.difference(&case.declared.doors).cloned().collect();
    let missing: Vec<String> = case.declared.doors.difference(&found).cloned().collect();
    match (tcp && udp, missing.is_empty()) {
        (true, true) => Item::nothing_else("listening", declared, &extra),
        (true, false) => Item::new("listening", declared, format!("not {}", missing.join(", ")), false),
        (false, _) => Item::new("listening", declared, "could not be listed", false),
    }
}

/// Sockets of a table of the kernel's (proc(5)): the second column is the address of this end, the fourth the state.
fn sockets(facts: &Facts, tried: &str) -> Vec<String> {
    let kind = tried.rsplit('/').next().unwrap_or_default();
    let waits = if kind.starts_with("tcp") { "0A" } else { "07" };
    let socket = |line: &String| {
        let mut columns = line.split_whitespace();
        let address = columns.nth(1)?;
        (columns.nth(1)? == waits).then(|| format!("{kind} {}", in_words(address)))
    };
    facts.lines(tried).iter().skip(1).filter_map(socket).collect()
}

/// An address as the kernel writes it: the bytes of the first part are in the order of memory. IPv6 stays as it is.
fn in_words(hexadecimal: &str) -> String {
    let read = || {
        let (address, port) = hexadecimal.split_once(':').filter(|(address, _)| address.len() == 8)?;
        let bytes = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
        Some(format!("{}:{}", Ipv4Addr::from(bytes), u16::from_str_radix(port, 16).ok()?))
    };
    read().unwrap_or_else(|| hexadecimal.to_owned())
}

/// Connections to these stay inside.
fn addresses(case: &Case<'_>) -> Item {
    let declared: Vec<String> = case.declared.addresses.iter().map(|(address, bits)| format!("{address}/{bits}")).collect();
    let is_declared =
        |found: &Ipv4Addr| case.declared.addresses.iter().any(|(address, bits)| prefix(*address, *bits) == prefix(*found, *bits));
    let found = own_addresses(&case.looked.lines(ADDRESSES));
    let extra: Vec<String> = found.iter().filter(|found| !is_declared(found)).map(Ipv4Addr::to_string).collect();
    match found.is_empty() {
        true => Item::new("its own addresses", declared.join(", "), "none could be listed", false),
        false => Item::nothing_else("its own addresses", declared.join(", "), &extra),
    }
}

fn prefix(address: Ipv4Addr, bits: u8) -> u32 {
    address.to_bits().checked_shr(32 - u32::from(bits.min(32))).unwrap_or_default()
}

/// Addresses of the kernel's table of routes that are marked as its own.
fn own_addresses(lines: &[String]) -> BTreeSet<Ipv4Addr> {
    let mut at: Option<Ipv4Addr> = None;
    let mut found = BTreeSet::new();
    for line in lines.iter().map(|line| line.trim()) {
        if let Some(address) = line.strip_prefix("|-- ") {
            at = address.parse().ok();
        } else if line.ends_with("host LOCAL") {
            found.extend(at);
        }
    }
    found
}

fn no_proxy(case: &Case<'_>) -> Item {
    let someone = |tried: &String| case.looked.errno(tried) != Some(NOBODY);
    let proxy = ways::undeclared(case.names, &case.declared.capabilities).first().map(Place::tunnel).unwrap_or_default();
    let asked = [(proxy, "a proxy"), (ways::name(&ways::nobody(case.names)), "a name server")];
    let found: Vec<String> = asked.iter().filter(|(tried, _)| someone(tried)).map(|(_, what)| (*what).to_owned()).collect();
    Item::nothing("proxy and name server", "none", &found)
}

/// One item for each declared destination that was tried, and one for the others.
fn allowed(case: &Case<'_>, listed: &[Destination]) -> Vec<Item> {
    let tried = ways::declared(&case.declared.capabilities);
    let mut items: Vec<Item> = tried.iter().map(|place| tunnel(case, place)).collect();
    let others = listed.len() - tried.len();
    if others > 0 {
        let why = "one connection to each of the first that name one host is enough";
        items.push(Item::unmeasured(&format!("{others} more destinations"), "not refused", why));
    }
    items
}

/// Whether a host outside answers is not the sandbox's affair.
fn tunnel(case: &Case<'_>, place: &Place) -> Item {
    let tried = place.tunnel();
    let (measured, is_good) = match (case.looked.errno(&tried), case.looked.status(&tried)) {
        (Some(0), Some(200)) => ("not refused".to_owned(), true),
        (Some(0), Some(status @ (502 | 504))) => (format!("not refused, and not reachable from here ({status})"), true),
        (Some(0), _) => (format!("answered with {}", reason(case.looked, &tried)), false),
        (Some(SILENT), _) => ("not refused, and not reached in 2 s".to_owned(), true),
        (Some(_) | None, _) => (case.looked.words(&tried), false),
    };
    Item::new(&place.what, "not refused", measured, is_good)
}

/// The last line that was answered: it says why.
pub(super) fn reason(facts: &Facts, tried: &str) -> String {
    facts.lines(tried).last().map_or("nothing", |line| line.trim()).to_owned()
}

fn refused(case: &Case<'_>) -> Item {
    let places = ways::undeclared(case.names, &case.declared.capabilities);
    let what: Vec<&str> = places.iter().map(|place| place.what.as_str()).collect();
    let declared = format!("{}: refused by CONNECT, by address and by SOCKS 5", what.join(", "));
    Item::nothing("any other destination", declared, &passed(case))
}

/// Places that are not declared, and the ways in which they were not refused. What was not tried counts as not refused.
pub(super) fn passed(case: &Case<'_>) -> Vec<String> {
    let is_absent = |tried: &str| case.looked.errno(tried) == Some(NOBODY);
    let is_refused = |tried: &str| is_absent(tried) || case.looked.status(tried) == Some(403);
    let is_refused_by_socks = |tried: &str| is_absent(tried) || case.looked.text(tried) == REFUSED;
    let ways = |place: &Place| {
        let all = [
            ("CONNECT", is_refused(&place.tunnel())),
            ("its address", is_refused(&place.absolute())),
            ("SOCKS 5", is_refused_by_socks(&place.socks())),
        ];
        all.into_iter().filter(|(_, is_refused)| !is_refused).map(|(way, _)| format!("{} by {way}", place.what)).collect::<Vec<_>>()
    };
    ways::undeclared(case.names, &case.declared.capabilities).iter().flat_map(ways).collect()
}

/// It stands for an address of the sandbox's own, of which the proxy knows the name.
fn known_name(case: &Case<'_>) -> Option<Item> {
    let host = ways::somebody(&case.declared.capabilities)?;
    let said = case.looked.text(&ways::name(&host));
    let address = said.strip_prefix("0 ").and_then(|address| address.parse::<Ipv4Addr>().ok());
    let is_own = |found: &Ipv4Addr| case.declared.addresses.iter().any(|(address, bits)| prefix(*address, *bits) == prefix(*found, *bits));
    let measured = address.map_or_else(|| format!("answered with {said}"), |address| address.to_string());
    Some(Item::new(&host, "an address of its own", measured, address.as_ref().is_some_and(is_own)))
}

fn names(case: &Case<'_>) -> Item {
    let tried = ways::name(&ways::nobody(case.names));
    let said = case.looked.text(&tried);
    let measured = match (case.looked.errno(&tried), said.as_str()) {
        (Some(0), NO_SUCH_NAME) => return Item::new("a name that no rule has", "not resolved", "no such name", true),
        (Some(0), said) => format!("answered with {said}"),
        (Some(_) | None, _) => case.looked.words(&tried),
    };
    Item::new("a name that no rule has", "not resolved", measured, false)
}
