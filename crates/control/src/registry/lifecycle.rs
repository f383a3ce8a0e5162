//! What can become of an agent: which action leads from which state to which. Pure, total, and one table.
//!
//! ```text
//! draft ──submit──► pending ──activate──► active ──suspend──► suspended ──resume──► pending
//!   ▲                  │                    (edited and approved anew while it serves)
//!   └──────refuse──────┘            every state ──retire──► retired, which is final
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an agent is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Nothing of it was approved, and nothing waits.
    Draft,
    /// Nothing of it serves; a revision waits for approval.
    Pending,
    /// One revision serves.
    Active,
    /// One revision would serve, but for the suspension.
    Suspended,
    /// Over for good.
    Retired,
}

/// What somebody wants of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Make a new draft of it.
    Add,
    /// Let its draft wait for approval.
    Submit,
    /// The waiting revision was approved.
    Activate,
    /// The waiting revision was refused.
    Refuse,
    /// Let it not run for now.
    Suspend,
    /// Let it wait for approval anew.
    Resume,
    /// Let it never run again.
    Retire,
}

/// An action that does not fit the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongTransition {
    /// Where the agent is.
    pub state: AgentState,
    /// What was wanted.
    pub action: Action,
}

impl AgentState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Draft, Self::Pending, Self::Active, Self::Suspended, Self::Retired];

    /// The state after an action.
    pub fn after(self, action: Action) -> Result<Self, WrongTransition> {
        match (self, action) {
            (Self::Retired, _) => Err(WrongTransition { state: self, action }),
            (_, Action::Retire) => Ok(Self::Retired),
            (_, Action::Add) => Ok(self),
            (Self::Draft | Self::Pending, Action::Submit) => Ok(Self::Pending),
            (Self::Active, Action::Submit) => Ok(Self::Active),
            (Self::Pending | Self::Active, Action::Activate) => Ok(Self::Active),
            (Self::Pending, Action::Refuse) => Ok(Self::Draft),
            (Self::Active | Self::Suspended, Action::Refuse) => Ok(self),
            (Self::Active, Action::Suspend) => Ok(Self::Suspended),
            (Self::Suspended, Action::Resume) => Ok(Self::Pending),
            (Self::Draft, Action::Activate | Action::Refuse | Action::Suspend | Action::Resume)
            | (Self::Pending, Action::Suspend | Action::Resume)
            | (Self::Active, Action::Resume)
            | (Self::Suspended, Action::Submit | Action::Activate | Action::Suspend) => Err(WrongTransition { state: self, action }),
        }
    }

    /// What is possible now.
    pub fn possible(self) -> Vec<Action> {
        Action::ALL.into_iter().filter(|action| self.after(*action).is_ok()).collect()
    }
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 7] = [Self::Add, Self::Submit, Self::Activate, Self::Refuse, Self::Suspend, Self::Resume, Self::Retire];

    /// What was done, as one says it.
    fn done(self) -> &'static str {
        match self {
            Self::Add => "changed",
            Self::Submit => "submitted",
            Self::Activate => "activated",
            Self::Refuse => "refused",
            Self::Suspend => "suspended",
            Self::Resume => "resumed",
            Self::Retire => "retired",
        }
    }
}

impl WrongTransition {
    /// What would be possible.
    pub fn hint(&self) -> String {
        let possible: Vec<String> = self.state.possible().iter().map(ToString::to_string).collect();
        match possible.is_empty() {
            true => "nothing can become of it any more; register an agent under another name".into(),
            false => format!("possible now: {}", possible.join(", ")),
        }
    }
}

impl fmt::Display for WrongTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is {} and cannot be {}", self.state, self.action.done())
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draft => "draft",
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Retired => "retired",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "add",
            Self::Submit => "submit",
            Self::Activate => "approve",
            Self::Refuse => "refuse",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Retire => "retire",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are states, columns actions, as in `ALL`; a hyphen is a refusal.
    const TABLE: [[&str; 7]; 5] = [
        // add      submit     activate  refuse       suspend      resume     retire
        ["draft", "pending", "-", "-", "-", "-", "retired"],
        ["pending", "pending", "active", "draft", "-", "-", "retired"],
        ["active", "active", "active", "active", "suspended", "-", "retired"],
        ["suspended", "-", "-", "suspended", "-", "pending", "retired"],
        ["-", "-", "-", "-", "-", "-", "-"],
    ];

    #[test]
    fn every_action_in_every_state_is_decided() {
        for (state, row) in AgentState::ALL.into_iter().zip(TABLE) {
            for (action, expected) in Action::ALL.into_iter().zip(row) {
                let found = state.after(action);
                assert_eq!(found.map_or_else(|_| "-".to_owned(), |state| state.to_string()), expected, "{action} in {state}");
                if let Err(wrong) = found {
                    assert_eq!(wrong, WrongTransition { state, action });
                    assert!(!wrong.hint().is_empty() && wrong.to_string().contains(&state.to_string()));
                }
            }
        }
        assert!(AgentState::Retired.possible().is_empty());
    }

    #[test]
    fn nothing_serves_that_was_not_approved() {
        for (state, action) in AgentState::ALL.into_iter().flat_map(|state| Action::ALL.map(|action| (state, action))) {
            if state != AgentState::Active && state.after(action) == Ok(AgentState::Active) {
                assert_eq!(action, Action::Activate, "{state}");
            }
        }
    }
}
