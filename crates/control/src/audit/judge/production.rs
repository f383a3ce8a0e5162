//! Can it reach production directly, or must it cross a governed tool?

use super::super::answer::Item;
use super::Case;
use super::network::{host_sockets, reached};

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    let capabilities = &case.declared.capabilities;
    let direct = [reached(case), host_sockets(case)].concat();
    let declared = format!("destinations {}", capabilities.reachable());
    let tools = format!("tools {}", capabilities.tools);
    vec![
        Item::nothing("direct ways", declared, &direct),
        // A tool would be a socket that answers.
        Item::nothing("governed tools", tools, &host_sockets(case)),
    ]
}
