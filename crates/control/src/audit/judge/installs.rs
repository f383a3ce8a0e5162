//! Are installs unrestricted?

use super::super::answer::Item;
use super::super::attempts::SYSTEM;
use super::Case;
use super::network::reached;

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let mode = format!("packages {}", case.declared.capabilities.packages);
    let is_written = |folder: &&&str| case.looked.errno(&format!("write={folder}")).is_none_or(|errno| errno == 0);
    let written: Vec<String> = SYSTEM.iter().filter(is_written).map(|folder| (*folder).to_owned()).collect();
    vec![
        Item::nothing("routes to a package index", mode, &reached(case)),
        Item::nothing("folders of the system that can be written", "none", &written),
    ]
}
