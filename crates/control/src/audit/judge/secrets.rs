//! What variables and secrets exist in the process?

use super::super::answer::Item;
use super::super::attempts::{DESCRIPTORS, INIT_VARIABLES, KEYRING, PROCESSES, VARIABLES};
use super::super::facts::Facts;
use super::Case;

/// A value shorter than this stands in texts by chance.
const SHORTEST: usize = 6;

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    vec![variables(case), secrets(case), descriptors(case), init(case), keyring(case), processes(case)]
}

/// Names and values must be those of the plan; only names are told.
fn variables(case: &Case<'_>) -> Item {
    let text = case.looked.text(VARIABLES);
    let found: Vec<&str> = text.split('\0').filter(|line| !line.is_empty()).collect();
    let declared: Vec<String> = case.declared.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let name = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
    let extra: Vec<String> = found
        .iter()
        .filter(|line| !declared.iter().any(|d| d == *line) && !case.declared.is_placeholder(line))
        .map(|line| name(line))
        .collect();
    let missing: Vec<String> = declared.iter().filter(|line| !found.contains(&line.as_str())).map(|line| name(line)).collect();
    let names: Vec<&str> = case.declared.environment.iter().map(|(name, _)| name.as_str()).collect();
    match missing.is_empty() {
        true => Item::nothing_else("variables", names.join(" "), &extra),
        false => Item::new("variables", names.join(" "), format!("not as declared: {}", missing.join(" ")), false),
    }
}

/// The caller's, and the token in the bait, anywhere in what the probe found.
fn secrets(case: &Case<'_>) -> Item {
    let is_found = |secret: &str| case.looked.hold(secret.as_bytes()) || case.left.facts.hold(secret.as_bytes());
    let known: Vec<&str> = case.secrets.iter().map(crate::request::Secret::expose).filter(|secret| secret.len() >= SHORTEST).collect();
    let found = known.iter().filter(|secret| is_found(secret)).count() + usize::from(is_found(&case.names.token));
    let declared = format!("none of the caller's {}, none of the bait's", known.len());
    let measured = if found == 0 { "none".to_owned() } else { format!("{found} found") };
    Item::new("secrets", declared, measured, found == 0)
}

fn descriptors(case: &Case<'_>) -> Item {
    let lines = case.looked.lines(DESCRIPTORS);
    let extra: Vec<String> = lines.iter().filter(|line| !["0 ", "1 ", "2 "].iter().any(|n| line.starts_with(n))).cloned().collect();
    match case.looked.worked(DESCRIPTORS) {
        true => Item::nothing_else("descriptors", "0, 1, 2", &extra),
        false => Item::new("descriptors", "0, 1, 2", case.looked.words(DESCRIPTORS), false),
    }
}

fn init(case: &Case<'_>) -> Item {
    let is_empty = case.looked.text(INIT_VARIABLES).is_empty() && case.looked.errno(INIT_VARIABLES).is_some();
    let measured = if case.looked.worked(INIT_VARIABLES) && !is_empty { "can be read".into() } else { unread(case.looked) };
    Item::new("variables of init", "not readable", measured, is_empty)
}

fn unread(facts: &Facts) -> String {
    if facts.worked(INIT_VARIABLES) { "empty".to_owned() } else { facts.words(INIT_VARIABLES) }
}

fn keyring(case: &Case<'_>) -> Item {
    let is_refused = case.looked.errno(KEYRING).is_some_and(|errno| errno != 0);
    Item::new("the caller's keyring", "refused", case.looked.words(KEYRING), is_refused)
}

/// Init may be seen, and the probe itself.
fn processes(case: &Case<'_>) -> Item {
    let names = case.looked.lines(PROCESSES);
    let others = names.iter().filter(|name| name.parse::<u32>().is_ok() && *name != "1").count().saturating_sub(1);
    let is_listed = case.looked.worked(PROCESSES);
    let measured = if is_listed { format!("{others} others") } else { case.looked.words(PROCESSES) };
    Item::new("processes", "its own", measured, is_listed && others == 0)
}
