//! Standing grants: a person's yes given ahead, signed once, for what is alike. It narrows what that person could approve anyway and counts as that
//! person's word alone.

use ringfence_evidence::{Digest, SigningKey, canonical};
use ringfence_policy::{ArtifactKind, Target};
use ringfence_store::{ApprovalRow, ApprovalState, NewDecision, NewStanding, RunId, StandingRow, Verdict};

use super::counting::{Electorate, covers};
use super::decision::{self, StandingGrant};
use super::{ApprovalError, ApprovalRequest, Approvals};
use crate::moment;
use crate::registry::{Person, Persons};

/// No standing grant lives longer, milliseconds.
const LONGEST: i64 = 90 * 24 * 3_600_000;
/// None is used more often.
const MOST_USES: u32 = 100;

/// A standing grant to be given.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// The agent.
    pub agent: String,
    /// The version of the agent, where it has one.
    pub agent_version: Option<Digest>,
    /// The kind of artifact.
    pub kind: ArtifactKind,
    /// The most bytes of an artifact.
    pub most_bytes: u64,
    /// How often.
    pub uses: u32,
    /// How long, milliseconds.
    pub life_ms: i64,
}

impl Approvals {
    /// Records a standing grant of a person for a target. The settings are those under which it holds.
    pub fn give(
        &mut self,
        new: &NewGrant,
        target: &Target,
        policy: Digest,
        person: &Person,
        key: &SigningKey,
    ) -> Result<String, ApprovalError> {
        check(new, target, person)?;
        let id = RunId::new().map_err(|e| ApprovalError::Grant(format!("no random bytes for a name: {e}")))?.to_string();
        let until = self.authority.now()?.saturating_add(new.life_ms);
        let grant = StandingGrant {
            grant: id.clone(),
            person: person.name.to_string(),
            target: target.name.to_string(),
            agent: new.agent.clone(),
            agent_version: new.agent_version,
            kind: new.kind.word().to_owned(),
            most_bytes: new.most_bytes,
            uses: new.uses,
            until: moment::in_words(until),
            policy,
        };
        let covers = canonical(&grant).map_err(|e| ApprovalError::Sign(e.to_string()))?;
        let envelope = decision::sign_standing(grant, key)?;
        let (person, key) = (person.name.to_string(), key.public().id());
        self.authority.give_standing(&NewStanding { id: id.clone(), person, key, covers, envelope, uses: new.uses, life: new.life_ms })?;
        Ok(id)
    }

    /// Every standing grant, the newest first.
    pub fn standing(&mut self) -> Result<Vec<StandingRow>, ApprovalError> {
        Ok(self.authority.standing()?)
    }

    /// Withdraws a standing grant.
    pub fn withdraw(&mut self, id: &str) -> Result<(), ApprovalError> {
        match self.authority.withdraw_standing(id)? {
            true => Ok(()),
            false => Err(ApprovalError::NoStanding(id.escape_debug().to_string())),
        }
    }

    /// Says yes to an approval in the name of everybody whose standing grant covers it, one use each, until enough have agreed.
    pub(crate) fn use_standing(&mut self, row: &ApprovalRow) -> Result<(), ApprovalError> {
        let Ok(request) = serde_json::from_str::<ApprovalRequest>(&row.request) else { return Ok(()) };
        let persons = Persons::of(&self.home);
        for standing in self.authority.standing()?.into_iter().filter(|standing| standing.is_usable) {
            let Ok(person) = standing.person.parse().map_err(drop).and_then(|name| persons.find(&name).map_err(drop)) else { continue };
            let grant = person.key.as_ref().and_then(|key| decision::open_standing(&standing.envelope, key).ok());
            let is_covered = grant.is_some_and(|grant| grant.grant == standing.id && covers(&grant, &standing.person, &request));
            if !is_covered || Electorate::bars(&person, &request).is_some() {
                continue;
            }
            let new = NewDecision {
                person: standing.person,
                key: standing.key,
                verdict: Verdict::Approve,
                digest: row.digest.clone(),
                envelope: standing.envelope,
                standing: Some(standing.id),
            };
            match self.record(&row.id, &new) {
                Ok(row) if row.state == ApprovalState::Pending => {}
                // Approved, or decided otherwise meanwhile.
                Ok(_) | Err(ApprovalError::Over { .. }) => return Ok(()),
                Err(ApprovalError::Before { .. } | ApprovalError::NoStanding(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn check(new: &NewGrant, target: &Target, person: &Person) -> Result<(), ApprovalError> {
    let refuse = |rule: String| Err(ApprovalError::Grant(rule));
    let groups = &target.consent.groups;
    if !groups.is_empty() && !groups.iter().any(|group| person.groups.contains(group)) {
        return refuse(format!("person `{}` could not approve for target `{}`, so cannot do so ahead", person.name, target.name));
    }
    if !target.accepts.contains(&new.kind) {
        return refuse(format!("target `{}` does not take artifacts of kind `{}`", target.name, new.kind));
    }
    if !(1..=MOST_USES).contains(&new.uses) {
        return refuse(format!("a standing grant is used from 1 to {MOST_USES} times, not {}", new.uses));
    }
    match (1..=LONGEST).contains(&new.life_ms) {
        true => Ok(()),
        false => refuse("a standing grant lives from a moment to 90 days".to_owned()),
    }
}
