//! The small lattices that capabilities are made of: ordered choices, and sets of patterns.
//!
//! A set is kept in canonical form (no element covered by another), so that two sets that allow the same things are equal and the laws of
//! `meet` hold as plain equality.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A pattern that stands for a set of names, paths or places.
pub trait Element: Clone + Ord + fmt::Display {
    /// The pattern that matches exactly what both match, or `None` if no name matches both.
    fn meet(&self, other: &Self) -> Option<Self>;

    /// True if everything that `other` matches is matched by `self`.
    fn covers(&self, other: &Self) -> bool {
        self.meet(other).as_ref() == Some(other)
    }
}

/// A set of patterns: everything, or only what is listed. An empty list allows nothing.
///
/// INVARIANT (canonical): no listed element is covered by another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Set<T: Ord> {
    /// No bound at all; only a layer that is absent has this.
    All,
    /// Only what one of these patterns matches.
    Only(BTreeSet<T>),
}

impl<T: Element> Set<T> {
    /// The set that allows nothing.
    pub fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// No bound.
    pub(crate) fn all() -> Self {
        Self::All
    }

    /// True if there is no bound.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// The set of the given patterns, in canonical form.
    pub fn only(elements: impl IntoIterator<Item = T>) -> Self {
        let listed: BTreeSet<T> = elements.into_iter().collect();
        let is_covered = |e: &T| listed.iter().any(|other| other != e && other.covers(e));
        Self::Only(listed.iter().filter(|e| !is_covered(e)).cloned().collect())
    }

    /// What both sets allow.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, x) | (x, Self::All) => x.clone(),
            (Self::Only(a), Self::Only(b)) => Self::only(a.iter().flat_map(|x| b.iter().filter_map(|y| x.meet(y)))),
        }
    }

    /// True if everything that `element` matches is allowed.
    pub fn allows(&self, element: &T) -> bool {
        match self {
            Self::All => true,
            Self::Only(listed) => listed.iter().any(|e| e.covers(element)),
        }
    }

    /// True if nothing is allowed.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Only(listed) if listed.is_empty())
    }
}

impl<T: Element> fmt::Display for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("unlimited"),
            Self::Only(listed) if listed.is_empty() => f.write_str("none"),
            Self::Only(listed) => {
                let words: Vec<String> = listed.iter().map(T::to_string).collect();
                f.write_str(&words.join(", "))
            }
        }
    }
}
