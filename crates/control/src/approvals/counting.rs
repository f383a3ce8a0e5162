//! Whose decision counts, whenever that is asked: the person is active, has the key that signed, is of a group that decides, is not left out; and
//! what was signed is this very request. A row that somebody wrote into the database counts for nothing.

use std::collections::BTreeMap;

use ringfence_evidence::Digest;
use ringfence_store::{ApprovalRow, ApprovalState, Authority, DecisionRow, Home, StandingRow, Verdict};

use super::decision::{self, StandingGrant};
use super::error::ApprovalError;
use super::request::{ApprovalRequest, Matter};
use crate::moment;
use crate::registry::{Person, Persons};

/// The persons as they are now.
#[derive(Debug)]
pub(crate) struct Electorate {
    persons: BTreeMap<String, Person>,
    standing: BTreeMap<String, StandingRow>,
    now: i64,
}

impl Electorate {
    pub(crate) fn of(home: &Home) -> Result<Self, ApprovalError> {
        let all = Persons::of(home).all()?;
        let mut authority = Authority::open(home)?;
        Ok(Self {
            persons: all.into_iter().map(|person| (person.name.to_string(), person)).collect(),
            standing: authority.standing()?.into_iter().map(|row| (row.id.clone(), row)).collect(),
            now: authority.now()?,
        })
    }

    /// Why this person may not decide about this request, if so.
    pub(crate) fn bars(person: &Person, request: &ApprovalRequest) -> Option<String> {
        let groups = &request.consent.groups;
        if !person.is_active() {
            return Some(format!("person `{}` is not active any more", person.name));
        }
        if person.key.is_none() {
            return Some(format!("person `{}` has no key to sign with", person.name));
        }
        if request.excluded.iter().any(|name| name == person.name.as_str()) {
            return Some(format!(
                "person `{}` cannot decide about this: the target leaves out the agent's owner and who asked",
                person.name
            ));
        }
        match groups.is_empty() || groups.iter().any(|group| person.groups.contains(group)) {
            true => None,
            false => {
                let named: Vec<&str> = groups.iter().map(|group| group.as_str()).collect();
                Some(format!("person `{}` is in none of the groups that decide about this: {}", person.name, named.join(", ")))
            }
        }
    }

    /// How many persons may decide about a request now.
    pub(crate) fn able(&self, row: &ApprovalRow) -> usize {
        let Ok(request) = serde_json::from_str::<ApprovalRequest>(&row.request) else { return 0 };
        self.persons.values().filter(|person| Self::bars(person, &request).is_none()).count()
    }

    /// True if a recorded decision counts now.
    pub(crate) fn counts(&self, row: &ApprovalRow, made: &DecisionRow) -> bool {
        self.holds(row, made).is_some()
    }

    fn holds(&self, row: &ApprovalRow, made: &DecisionRow) -> Option<()> {
        let request: ApprovalRequest = serde_json::from_str(&row.request).ok()?;
        let digest = Digest::of(row.request.as_bytes());
        let person = self.persons.get(&made.person).filter(|person| Self::bars(person, &request).is_none())?;
        let key = person.key.as_ref().filter(|key| key.id() == made.key)?;
        let is_sound = digest.to_string() == row.digest && request.approval == row.id && request.consent.quorum == row.quorum;
        let says_so = match &made.standing {
            Some(id) => {
                let grant = decision::open_standing(&made.envelope, key).ok()?;
                made.verdict == Verdict::Approve && self.stands(&grant, id, row) && covers(&grant, &made.person, &request)
            }
            None => {
                let said = decision::open(&made.envelope, key, &digest, &request.preview).ok()?;
                said.approval == row.id && said.person == made.person && said.verdict == made.verdict.word()
            }
        };
        (is_sound && says_so).then_some(())
    }
}

impl Electorate {
    /// True if a standing grant is the one that is meant, was not withdrawn, has not been used more often than was signed, and lives: now, or when the
    /// approval was used.
    fn stands(&self, grant: &StandingGrant, id: &str, row: &ApprovalRow) -> bool {
        let when = moment::in_words(row.settled_at.filter(|_| row.state == ApprovalState::Consumed).unwrap_or(self.now));
        let known = self.standing.get(id);
        grant.grant == id && grant.until > when && known.is_some_and(|known| known.ended_at.is_none() && known.used <= grant.uses)
    }
}

/// True if a standing grant of this person covers the request. Every field narrows; nothing is taken back by one.
pub(crate) fn covers(grant: &StandingGrant, person: &str, request: &ApprovalRequest) -> bool {
    let Matter::Promotion { what, target, paths, undoes, .. } = &request.matter else { return false };
    grant.person == person
        && paths.is_empty()
        && undoes.is_none()
        && grant.target == *target
        && grant.agent == what.agent
        && grant.agent_version == what.agent_version
        && grant.kind == what.kind.word()
        && what.bytes <= grant.most_bytes
        && grant.policy == request.policy
}
