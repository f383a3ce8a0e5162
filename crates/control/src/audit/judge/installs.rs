//! Are installs unrestricted?

use super::super::answer::Item;
use super::super::attempts::SYSTEM;
use super::network::reached;
use super::{Case, WRITABLE, is_below};

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let mode = format!("packages {}", case.declared.capabilities.packages);
    let is_written = |folder: &&&str| {
        let tried = format!("write={folder}");
        case.looked.errno(&tried).is_none_or(|errno| errno == 0) && !is_below(folder, &WRITABLE)
    };
    let written: Vec<String> = SYSTEM.iter().filter(is_written).map(|folder| (*folder).to_owned()).collect();
    vec![
        Item::nothing("routes to a package index", mode, &reached(case)),
        Item::nothing("folders of the system that can be written", "none", &written),
    ]
}
