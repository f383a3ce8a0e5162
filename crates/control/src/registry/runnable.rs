//! May this agent run now, with this profile? Pure: everything that it depends on is handed in.

use ringfence_evidence::Digest;
use ringfence_policy::{AgentId, AgentProfiles, AgentRecord, Bound, Date, PersonName};

use super::agent::Revision;
use super::error::RegistryError;
use super::lifecycle::AgentState;
use super::person::Person;
use crate::profiles::ProfileText;

/// An agent that may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// Who answers for it.
    pub owner: PersonName,
    /// What it may do at most.
    pub bound: Bound,
    /// The version that was approved and runs.
    pub version: Digest,
}

/// Whether an agent is there at all today: it serves, it was reviewed, and somebody answers for it.
pub(super) fn serves(state: AgentState, record: &AgentRecord, owner: Option<&Person>, today: Date) -> Result<(), RegistryError> {
    let id = || record.id.clone();
    if state != AgentState::Active {
        return Err(RegistryError::NotActive { id: id(), state });
    }
    if let Some(review_by) = record.review_by.filter(|review_by| today > *review_by) {
        return Err(RegistryError::PastReview { id: id(), review_by });
    }
    match owner.is_some_and(|owner| owner.is_active() && owner.name == record.owner) {
        true => Ok(()),
        false => Err(RegistryError::NoActiveOwner { id: id(), owner: record.owner.clone() }),
    }
}

/// A profile is the one that was approved: of its name, and of its text.
pub(super) fn allows(record: &AgentRecord, revision: &Revision, profile: &ProfileText) -> Result<(), RegistryError> {
    let name = &profile.profile.name;
    if !record.profiles.contains(name) {
        return Err(RegistryError::ForeignProfile { id: record.id.clone(), profile: name.clone(), listed: record.profiles.to_string() });
    }
    match record.profiles == AgentProfiles::All || revision.profile_digests.get(name) == Some(&profile.digest()) {
        true => Ok(()),
        false => Err(RegistryError::ProfileChanged { id: record.id.clone(), profile: name.clone(), version: revision.version }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::PersonState;

    fn check(today: &str, owner: PersonState, state: AgentState) -> Result<(), RegistryError> {
        let text =
            "id = \"x\"\nname = \"x\"\npurpose = \"x\"\nowner = \"anna\"\nteam = \"x\"\nprofiles = [\"p\"]\nreview-by = \"2027-01-31\"\n";
        let anna = Person {
            name: "anna".parse().unwrap(),
            identity: "anna".parse().unwrap(),
            groups: std::collections::BTreeSet::new(),
            key: None,
            state: owner,
            added_at: String::new(),
            retired_at: None,
        };
        serves(state, &AgentRecord::parse("x", text).unwrap(), Some(&anna), today.parse().unwrap())
    }

    #[test]
    fn an_agent_runs_up_to_the_day_of_its_review() {
        assert!(check("2027-01-31", PersonState::Active, AgentState::Active).is_ok());
        let late = check("2027-02-01", PersonState::Active, AgentState::Active).unwrap_err();
        assert!(matches!(late, RegistryError::PastReview { .. }) && late.hint().contains("review-by"), "{late}");
    }

    #[test]
    fn nobody_runs_without_an_owner_or_a_yes() {
        assert!(matches!(check("2027-01-01", PersonState::Inactive, AgentState::Active), Err(RegistryError::NoActiveOwner { .. })));
        for state in AgentState::ALL.into_iter().filter(|state| *state != AgentState::Active) {
            assert!(matches!(check("2027-01-01", PersonState::Active, state), Err(RegistryError::NotActive { .. })), "{state}");
        }
    }
}
