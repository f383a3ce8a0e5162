//! What limits hold?

use super::super::answer::Item;
use super::super::limits::LimitMeasured;
use super::Case;

pub(super) fn items(case: &Case<'_>) -> Vec<Item> {
    case.declared
        .capabilities
        .limits
        .iter()
        .map(|(key, declared)| {
            let grade = case.declared.grades.get(key.name()).map_or("nobody", String::as_str);
            let declared = format!("{}, held: {grade}", key.show(declared));
            match case.limits.iter().find(|limit| limit.key == key) {
                Some(LimitMeasured { is_held: None, met, .. }) => Item::unmeasured(key.name(), declared, met),
                Some(limit) => Item::new(key.name(), declared, measured(limit), limit.is_held == Some(true)),
                None => Item::new(key.name(), declared, "not measured", false),
            }
        })
        .collect()
}

fn measured(limit: &LimitMeasured) -> String {
    format!("at {}: {}", limit.key.show(limit.lowered), limit.met)
}
