//! How sensitive work asks for a stronger tier.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::choices::{Sensitivity, Tier};

/// The least tier for each sensitivity; one that is not named asks for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeastTiers(BTreeMap<Sensitivity, Tier>);

impl LeastTiers {
    /// Asks for a tier.
    pub fn set(&mut self, sensitivity: Sensitivity, tier: Tier) {
        if tier > Tier::Process {
            self.0.insert(sensitivity, tier);
        }
    }

    /// The least tier for work of a sensitivity: what is asked for it or for less.
    pub fn of(&self, sensitivity: Sensitivity) -> Tier {
        self.0.range(..=sensitivity).map(|(_, tier)| *tier).max().unwrap_or(Tier::Process)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn meet(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (sensitivity, tier) in &other.0 {
            both.0.entry(*sensitivity).and_modify(|own| *own = (*own).max(*tier)).or_insert(*tier);
        }
        both
    }
}

impl fmt::Display for LeastTiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(sensitivity, tier)| format!("{sensitivity} {tier}")).collect();
        f.write_str(if words.is_empty() { "none" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}
