//! What destinations can it reach?

use super::super::answer::Item;
use super::super::attempts::{self, ANYWHERE, INTERFACES, KINDS, METADATA, WALK};
use super::super::ways;
use super::Case;
use super::ways::passed;

/// Kernel's answers that mean that there is no way at all, not even one on which nobody answers.
const NO_WAY: [i32; 3] = [101, 13, 1]; // ENETUNREACH, EACCES, EPERM

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    vec![interfaces(case), direct(case), sockets(case), kinds(case)]
}

fn interfaces(case: &Case<'_>) -> Item {
    let lines = case.looked.lines(INTERFACES);
    let names: Vec<String> = lines.iter().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
    let extra: Vec<String> = names.iter().filter(|name| *name != "lo").cloned().collect();
    match names.is_empty() {
        true => Item::new("interfaces", "lo", "none could be listed", false),
        false => Item::nothing_else("interfaces", "lo", &extra),
    }
}

/// Past the proxy there is no way, whatever is declared.
fn direct(case: &Case<'_>) -> Item {
    let network = case.declared.capabilities.reachable().to_string();
    let reached = reached(case);
    match ways::listed(&case.declared.capabilities).is_empty() {
        true => Item::nothing("destinations", network, &reached),
        false => Item::nothing_else("destinations", network, &reached),
    }
}

/// Places outside the sandbox to which there is a way that nobody declared.
pub(super) fn reached(case: &Case<'_>) -> Vec<String> {
    let has_way = |tried: &str| case.looked.errno(tried).is_none_or(|errno| !NO_WAY.contains(&errno));
    let answers = |tried: &str| case.looked.errno(tried).is_none_or(|errno| errno == 0);
    let service = attempts::service(case.names);
    let is_declared = |tried: &str| case.declared.doors.contains(&tried.replacen("tcp=", "tcp ", 1));
    let direct = [
        answers(&service).then(|| "a service on the host's loopback".to_owned()),
        (has_way(METADATA) && !is_declared(METADATA)).then(|| "the metadata service of a cloud".to_owned()),
        has_way(ANYWHERE).then(|| "addresses of the internet".to_owned()),
    ];
    direct.into_iter().flatten().chain(passed(case)).collect()
}

fn sockets(case: &Case<'_>) -> Item {
    Item::nothing("sockets of the host", "none", &host_sockets(case))
}

/// Sockets of the host that answer: by name, without a file, or met on the walk.
pub(super) fn host_sockets(case: &Case<'_>) -> Vec<String> {
    let answers = |tried: &str| case.looked.errno(tried).is_none_or(|errno| errno == 0);
    let (named, nameless) = (attempts::named_socket(case.names), attempts::abstract_socket(case.names));
    let baited = [(named, "a socket file"), (nameless, "an abstract socket")];
    let met = case.looked.lines(WALK);
    let met = met.iter().filter_map(|line| line.strip_prefix("socket 0 ")).map(str::to_owned);
    baited.into_iter().filter(|(tried, _)| answers(tried)).map(|(_, what)| what.to_owned()).chain(met).collect()
}

fn kinds(case: &Case<'_>) -> Item {
    let made = |kind: &&&str| case.looked.errno(&format!("socket={kind}")).is_none_or(|errno| errno == 0);
    let made: Vec<String> = KINDS.iter().filter(made).map(|kind| (*kind).to_owned()).collect();
    Item::nothing(&format!("sockets of kind {}", KINDS.join(", ")), "refused", &made)
}
