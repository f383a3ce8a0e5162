//! Are installs unrestricted?

use ringfence_policy::{Ecosystem, InstallScripts, PackageMode, SourceBuilds};

use super::super::answer::Item;
use super::super::attempts::SYSTEM;
use super::super::ways;
use super::Case;
use super::network::reached;
use super::ways::reason;

/// The kernel's answer where nobody listens: ECONNREFUSED.
const NOBODY: i32 = 111;

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let packages = &case.declared.capabilities.packages;
    let is_written = |folder: &&&str| case.looked.errno(&format!("write={folder}")).is_none_or(|errno| errno == 0);
    let written: Vec<String> = SYSTEM.iter().filter(is_written).map(|folder| (*folder).to_owned()).collect();
    let mut items = match packages.most() {
        PackageMode::None => vec![no_index(case)],
        PackageMode::Locked | PackageMode::Allowlist | PackageMode::Open => Ecosystem::ALL.map(|one| language(case, one)).to_vec(),
    };
    if packages.most() != PackageMode::None {
        items.extend(conditions(case));
    }
    items.push(Item::nothing("routes past the index", format!("packages {packages}"), &reached(case)));
    items.push(Item::nothing("folders of the system that can be written", "none", &written));
    items
}

fn no_index(case: &Case<'_>) -> Item {
    let measured = match case.looked.errno(&ways::index()) {
        Some(NOBODY) => return Item::new("package index", "none", "nothing listens", true),
        Some(0) => "one answers".to_owned(),
        Some(_) | None => case.looked.words(&ways::index()),
    };
    Item::new("package index", "none", measured, false)
}

/// A package that nobody has is refused by name, before the index outside hears of it. Where anything may be chosen that is said as plainly.
fn language(case: &Case<'_>, ecosystem: Ecosystem) -> Item {
    let mode = case.declared.capabilities.packages.mode(ecosystem);
    let (capability, listed) = (format!("{ecosystem} packages"), listed(case, ecosystem));
    let index = case.looked.status(&ways::index());
    if mode == PackageMode::Open {
        let is_there = index.is_some();
        let measured = if is_there { "OPEN: any package, by its name alone" } else { "no index answers" };
        return Item::new(&capability, mode.to_string(), measured, is_there);
    }
    let tried = ways::package(ecosystem, case.names);
    let is_refused = case.looked.status(&tried) == Some(403);
    let measured = match case.looked.errno(&tried) {
        Some(0) if is_refused => format!("another is refused: {}", reason(case.looked, &tried)),
        Some(0) => format!("another is answered with {}", reason(case.looked, &tried)),
        Some(_) | None => case.looked.words(&tried),
    };
    Item::new(&capability, format!("{mode}{listed}"), measured, is_refused)
}

fn listed(case: &Case<'_>, ecosystem: Ecosystem) -> String {
    let packages = &case.declared.capabilities.packages;
    match (packages.mode(ecosystem), &packages.allow) {
        (PackageMode::Allowlist, rules) => format!(": {rules}"),
        (PackageMode::None | PackageMode::Locked | PackageMode::Open, _) => String::new(),
    }
}

/// What is asked of a package that may be had.
fn conditions(case: &Case<'_>) -> Vec<Item> {
    let packages = &case.declared.capabilities.packages;
    let builds = if packages.source_builds == SourceBuilds::None { "none" } else { "any" };
    let scripts = if packages.install_scripts == InstallScripts::None { "none" } else { "any" };
    let why = "held by the index, and there is no package to try it with";
    vec![
        Item::unmeasured("source builds", builds, why),
        Item::unmeasured("install scripts", scripts, why),
        Item::unmeasured("minimum age", packages.minimum_age.to_string(), why),
    ]
}
