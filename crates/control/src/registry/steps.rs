//! What becomes of an agent, step by step. Which step is possible is `lifecycle`'s to say; here it is done and kept, under the registry's lock.

use ringfence_evidence::Digest;
use ringfence_policy::{AgentId, AgentRecord, PersonName, ProfileName};
use ringfence_store::{RegistryLock, now};

use super::agent::{Deed, ProfileDigests, RegisteredAgent, Revision, RevisionState};
use super::agents::{Agents, today};
use super::error::RegistryError;
use super::lifecycle::{Action, AgentState};
use super::persons::Persons;
use crate::profiles::find_profile;

/// What came of `add`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// A new draft, with this number.
    Draft(u32),
    /// The same as this revision, which is there already.
    Unchanged(u32, RevisionState),
}

impl Agents {
    /// Makes a draft of what a person wrote. An agent that is active serves on as it is.
    pub fn add(&self, record: &AgentRecord) -> Result<(RegisteredAgent, Added), RegistryError> {
        let lock = RegistryLock::take(&self.home)?;
        not_local(&record.id)?;
        self.check_submission(record)?;
        let digests = self.profile_digests(record)?;
        let fresh = || RegisteredAgent { id: record.id.clone(), state: AgentState::Draft, revisions: Vec::new(), history: Vec::new() };
        let mut agent = self.documents.get(record.id.as_str())?.map_or_else(|| Ok(fresh()), |agent| self.checked(agent))?;
        self.step(&mut agent, Action::Add)?;
        let live = |r: &&Revision| matches!(r.state, RevisionState::Draft | RevisionState::Pending | RevisionState::Active);
        let newest = agent.revisions.iter().rev().find(live);
        if let Some(same) = newest.filter(|r| r.record == record.text() && r.profile_digests == digests) {
            let unchanged = Added::Unchanged(same.number, same.state);
            return Ok((agent, unchanged));
        }
        let number = next_number(&agent);
        supersede(&mut agent, RevisionState::Draft);
        agent.revisions.push(Revision::draft(number, record, digests, now()));
        self.keep(&lock, agent, Action::Add, Some(number), None).map(|agent| (agent, Added::Draft(number)))
    }

    /// Lets the draft wait for approval, with its profiles as they are now.
    pub fn submit(&self, id: &AgentId) -> Result<RegisteredAgent, RegistryError> {
        let (lock, mut agent) = self.open(id)?;
        self.step(&mut agent, Action::Submit)?;
        let draft = agent.revision(RevisionState::Draft).ok_or_else(|| RegistryError::NoDraft(id.clone()))?.clone();
        let number = self.wait(&mut agent, draft)?;
        self.keep(&lock, agent, Action::Submit, Some(number), None)
    }

    /// Lets an approved revision serve, in the place of the one that did. To say so twice changes nothing.
    pub fn activate(&self, id: &AgentId, version: &Digest, approval: &str) -> Result<RegisteredAgent, RegistryError> {
        self.decide(id, version, approval, Action::Activate)
    }

    /// Puts a refused revision aside. To say so twice changes nothing.
    pub fn refuse(&self, id: &AgentId, version: &Digest, approval: &str) -> Result<RegisteredAgent, RegistryError> {
        self.decide(id, version, approval, Action::Refuse)
    }

    fn decide(&self, id: &AgentId, version: &Digest, approval: &str, action: Action) -> Result<RegisteredAgent, RegistryError> {
        let (lock, mut agent) = self.open(id)?;
        let wanted = if action == Action::Activate { RevisionState::Active } else { RevisionState::Refused };
        let unknown = || RegistryError::NoVersion { id: id.clone(), version: *version };
        let revision = agent.revisions.iter().find(|revision| revision.version == *version).ok_or_else(unknown)?;
        let (number, state) = (revision.number, revision.state);
        self.record(&agent, revision)?;
        if state == wanted {
            return Ok(agent);
        }
        if state != RevisionState::Pending {
            return Err(RegistryError::NotPending { id: id.clone(), version: *version, state });
        }
        self.step(&mut agent, action)?;
        if action == Action::Activate {
            supersede(&mut agent, RevisionState::Active);
        }
        if let Some(revision) = agent.revisions.iter_mut().find(|revision| revision.number == number) {
            revision.state = wanted;
            revision.approval = Some(approval.to_owned());
            revision.activated_at = (action == Action::Activate).then(now);
        }
        self.keep(&lock, agent, action, Some(number), None)
    }

    /// Lets an agent not run for now.
    pub fn suspend(&self, id: &AgentId, reason: Option<String>) -> Result<RegisteredAgent, RegistryError> {
        let (lock, mut agent) = self.open(id)?;
        self.step(&mut agent, Action::Suspend)?;
        self.keep(&lock, agent, Action::Suspend, None, reason)
    }

    /// Lets a suspended agent wait for approval anew: its draft if there is one, else what served, as a revision of its own.
    pub fn resume(&self, id: &AgentId) -> Result<RegisteredAgent, RegistryError> {
        let (lock, mut agent) = self.open(id)?;
        self.step(&mut agent, Action::Resume)?;
        if agent.revision(RevisionState::Draft).is_none() {
            let served = agent.revision(RevisionState::Active).ok_or_else(|| RegistryError::NoDraft(id.clone()))?;
            let record = self.record(&agent, served)?;
            let again = Revision::draft(next_number(&agent), &record, ProfileDigests::new(), now());
            agent.revisions.push(again);
        }
        supersede(&mut agent, RevisionState::Active);
        let draft = agent.revision(RevisionState::Draft).ok_or_else(|| RegistryError::NoDraft(id.clone()))?.clone();
        let number = self.wait(&mut agent, draft)?;
        self.keep(&lock, agent, Action::Resume, Some(number), None)
    }

    /// Lets an agent never run again.
    pub fn retire(&self, id: &AgentId) -> Result<RegisteredAgent, RegistryError> {
        let (lock, mut agent) = self.open(id)?;
        self.step(&mut agent, Action::Retire)?;
        self.keep(&lock, agent, Action::Retire, None, None)
    }

    /// A draft becomes what waits, and nothing else does.
    fn wait(&self, agent: &mut RegisteredAgent, draft: Revision) -> Result<u32, RegistryError> {
        let record = self.record(agent, &draft)?;
        self.check_submission(&record)?;
        let submitted = draft.submitted(self.profile_digests(&record)?, now());
        let number = submitted.number;
        supersede(agent, RevisionState::Pending);
        if let Some(place) = agent.revisions.iter_mut().find(|revision| revision.number == number) {
            *place = submitted;
        }
        Ok(number)
    }

    fn check_submission(&self, record: &AgentRecord) -> Result<(), RegistryError> {
        let active = |name: &PersonName| match Persons::of(&self.home).find(name) {
            Err(RegistryError::NoPerson(_)) => Ok(false),
            found => found.map(|person| person.is_active()),
        };
        if !active(&record.owner)? {
            return Err(RegistryError::NoActiveOwner { id: record.id.clone(), owner: record.owner.clone() });
        }
        let today = today()?;
        match record.review_by.filter(|review_by| *review_by <= today) {
            Some(review_by) => Err(RegistryError::ReviewNotAhead { id: record.id.clone(), review_by }),
            None => Ok(()),
        }
    }

    fn profile_digests(&self, record: &AgentRecord) -> Result<ProfileDigests, RegistryError> {
        let digest = |name: &ProfileName| {
            let found = find_profile(&self.home, name.as_str());
            let unusable = |error| RegistryError::UnusableProfile { id: record.id.clone(), source: Box::new(error) };
            found.map(|found| (name.clone(), found.digest())).map_err(unusable)
        };
        record.profiles.named().map(digest).collect()
    }

    /// Everything that changes an agent begins here.
    fn open(&self, id: &AgentId) -> Result<(RegistryLock, RegisteredAgent), RegistryError> {
        not_local(id)?;
        let lock = RegistryLock::take(&self.home)?;
        Ok((lock, self.find(id)?))
    }

    fn checked(&self, agent: RegisteredAgent) -> Result<RegisteredAgent, RegistryError> {
        agent.check(&self.documents.path(agent.id.as_str()))?;
        Ok(agent)
    }

    fn step(&self, agent: &mut RegisteredAgent, action: Action) -> Result<(), RegistryError> {
        agent.state = agent.state.after(action).map_err(|wrong| RegistryError::Transition { id: agent.id.clone(), wrong })?;
        Ok(())
    }

    /// And ends here.
    fn keep(
        &self,
        lock: &RegistryLock,
        mut agent: RegisteredAgent,
        action: Action,
        revision: Option<u32>,
        reason: Option<String>,
    ) -> Result<RegisteredAgent, RegistryError> {
        agent.history.push(Deed { at: now(), action, revision, reason });
        let agent = self.checked(agent)?;
        self.documents.put(lock, &agent)?;
        Ok(agent)
    }
}

fn not_local(id: &AgentId) -> Result<(), RegistryError> {
    if id.is_local() { Err(RegistryError::Local) } else { Ok(()) }
}

fn next_number(agent: &RegisteredAgent) -> u32 {
    agent.revisions.last().map_or(1, |last| last.number + 1)
}

fn supersede(agent: &mut RegisteredAgent, state: RevisionState) {
    for revision in agent.revisions.iter_mut().filter(|revision| revision.state == state) {
        revision.state = RevisionState::Superseded;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry::{NewKey, NewPerson, PendingRevision, active};
    use ringfence_evidence::SigningKey;
    use ringfence_store::Home;

    struct Place {
        _folder: tempfile::TempDir,
        home: Home,
        agents: Agents,
    }

    fn id() -> AgentId {
        "writer".parse().unwrap()
    }

    fn record(purpose: &str) -> AgentRecord {
        let text = format!(
            "id = \"writer\"\nname = \"Writer\"\npurpose = \"{purpose}\"\nowner = \"anna-x\"\nteam = \"data\"\n\
             profiles = [\"data-analysis\", \"mine\"]\nreview-by = \"9999-12-31\"\n[bound.limits]\nmemory = \"64MiB\"\n"
        );
        AgentRecord::parse("writer.toml", &text).unwrap()
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::open(&folder.path().join("home")).unwrap();
            let new = NewPerson { name: "anna-x".parse().unwrap(), identity: None, groups: BTreeSet::new() };
            Persons::of(&home).add(new, NewKey::Given(SigningKey::from_seed(&[1; 32]).public())).unwrap();
            let place = Self { agents: Agents::of(&home), home, _folder: folder };
            place.write_profile("");
            place
        }

        fn write_profile(&self, more: &str) {
            std::fs::create_dir_all(self.home.root().join("profiles")).unwrap();
            std::fs::write(self.home.root().join("profiles/mine.toml"), format!("name = \"mine\"\n{more}")).unwrap();
        }

        fn waiting(&self) -> PendingRevision {
            self.agents.pending(&id()).unwrap().unwrap()
        }

        fn approved(&self, purpose: &str) -> Digest {
            self.agents.add(&record(purpose)).unwrap();
            self.agents.submit(&id()).unwrap();
            let version = self.waiting().version;
            self.agents.activate(&id(), &version, "approval-1").unwrap();
            version
        }

        fn states(&self) -> Vec<RevisionState> {
            self.agents.find(&id()).unwrap().revisions.iter().map(|revision| revision.state).collect()
        }

        fn run(&self, profile: &str) -> Result<Digest, String> {
            let profile = find_profile(&self.home, profile).unwrap();
            active(&self.home, &id(), &profile).map(|agent| agent.version).map_err(|error| {
                assert!(!error.hint().is_empty());
                error.to_string()
            })
        }
    }

    #[test]
    fn only_what_was_approved_runs() {
        let place = Place::new();
        assert!(place.run("mine").unwrap_err().contains("is not registered"));
        assert_eq!(place.agents.add(&record("one")).unwrap().1, Added::Draft(1));
        assert_eq!(place.agents.add(&record("one")).unwrap().1, Added::Unchanged(1, RevisionState::Draft));
        assert!(place.run("mine").unwrap_err().contains("is draft and may not run"));
        assert_eq!(place.agents.pending(&id()).unwrap(), None);
        place.agents.submit(&id()).unwrap();
        assert!(place.run("mine").unwrap_err().contains("is pending and may not run"));
        let waiting = place.waiting();
        assert_eq!((waiting.version, &waiting.record), (Digest::of(waiting.text.as_bytes()), &record("one")));
        assert!(waiting.text.contains("[profile-digests]\ndata-analysis = \"sha256:"), "{}", waiting.text);
        assert!(place.agents.activate(&id(), &Digest::zero(), "a").unwrap_err().to_string().contains("has no version"));
        for _ in 0..2 {
            place.agents.activate(&id(), &waiting.version, "approval-1").unwrap();
        }
        assert_eq!(place.run("mine"), Ok(waiting.version));
        let agent = place.agents.find(&id()).unwrap();
        assert_eq!((agent.history.len(), agent.revisions[0].approval.as_deref()), (3, Some("approval-1")));
        assert!(place.run("base").unwrap_err().contains("may not run profile `base`; it may run data-analysis, mine"));
    }

    #[test]
    fn a_new_draft_changes_nothing_until_it_is_approved() {
        let place = Place::new();
        let first = place.approved("one");
        place.agents.add(&record("two")).unwrap();
        place.agents.add(&record("three")).unwrap();
        assert_eq!(place.run("mine"), Ok(first));
        place.agents.submit(&id()).unwrap();
        assert_eq!(place.run("mine"), Ok(first));
        let refused = place.waiting().version;
        place.agents.refuse(&id(), &refused, "approval-2").unwrap();
        assert_eq!(place.run("mine"), Ok(first));
        assert!(place.agents.activate(&id(), &refused, "a").unwrap_err().to_string().contains("is refused and does not wait"));
        let second = place.approved("four");
        assert_eq!(place.run("mine"), Ok(second));
        use RevisionState::{Active, Refused, Superseded};
        assert_eq!(place.states(), [Superseded, Superseded, Refused, Active]);
        assert!(
            place.agents.activate(&id(), &first, "a").unwrap_err().to_string().contains("is superseded"),
            "no way back but a new revision"
        );
    }

    #[test]
    fn a_refused_agent_is_a_draft_again() {
        let place = Place::new();
        place.agents.add(&record("one")).unwrap();
        place.agents.submit(&id()).unwrap();
        place.agents.refuse(&id(), &place.waiting().version, "a").unwrap();
        assert!(place.run("mine").unwrap_err().contains("is draft"));
        assert!(place.agents.submit(&id()).unwrap_err().to_string().contains("has no draft"));
        assert_eq!(place.agents.add(&record("one")).unwrap().1, Added::Draft(2), "what was refused can be proposed again");
    }

    #[test]
    fn a_suspended_agent_needs_a_new_approval() {
        let place = Place::new();
        let first = place.approved("one");
        place.agents.suspend(&id(), Some("strange runs".into())).unwrap();
        assert!(place.run("mine").unwrap_err().contains("is suspended and may not run"));
        let twice = place.agents.suspend(&id(), None).unwrap_err();
        assert!(twice.to_string().contains("is suspended and cannot be suspended") && twice.hint().contains("resume"), "{twice}");
        place.agents.activate(&id(), &first, "approval-1").unwrap();
        assert!(place.run("mine").is_err(), "the old approval does not let it run");
        place.agents.resume(&id()).unwrap();
        assert!(place.run("mine").unwrap_err().contains("is pending"));
        assert_ne!(place.waiting().version, first, "no approval fits two revisions");
        place.agents.activate(&id(), &place.waiting().version, "approval-2").unwrap();
        assert!(place.run("mine").is_ok());
        place.agents.suspend(&id(), None).unwrap();
        place.agents.add(&record("two")).unwrap();
        place.agents.resume(&id()).unwrap();
        assert_eq!(place.waiting().record, record("two"), "the draft, where there is one");
    }

    #[test]
    fn a_retired_agent_stays_retired() {
        let place = Place::new();
        place.approved("one");
        place.agents.add(&record("two")).unwrap();
        place.agents.submit(&id()).unwrap();
        let waiting = place.waiting().version;
        place.agents.retire(&id()).unwrap();
        assert!(place.run("mine").unwrap_err().contains("is retired"));
        assert_eq!(place.agents.pending(&id()).unwrap(), None);
        assert!(place.agents.activate(&id(), &waiting, "a").is_err() && place.agents.resume(&id()).is_err());
        assert!(place.agents.add(&record("three")).unwrap_err().hint().contains("another name"));
    }

    #[test]
    fn a_changed_profile_a_retired_owner_and_a_damaged_record_stop_it() {
        let place = Place::new();
        place.approved("one");
        place.write_profile("summary = \"more\"\n");
        let changed = place.run("mine").unwrap_err();
        assert!(changed.contains("profile `mine` changed since version sha256:"), "{changed}");
        assert!(place.run("data-analysis").is_ok(), "the other profile is as it was");
        place.approved("one");
        assert!(place.run("mine").is_ok(), "submitted again, with the profile as it is");
        let path = place.home.agents().join("writer.json");
        let whole = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("64MiB", "65MiB"),
            ("\"number\": 2", "\"number\": 3"),
            ("\"state\": \"active\"", "\"state\": \"pending\""),
            ("{", "{\"x\":1,"),
        ] {
            std::fs::write(&path, whole.replacen(from, to, 1)).unwrap();
            let damaged = place.run("mine").unwrap_err();
            assert!(damaged.contains("agents/writer.json` does not read"), "{to}: {damaged}");
        }
        std::fs::write(&path, whole).unwrap();
        Persons::of(&place.home).retire(&"anna-x".parse().unwrap()).unwrap();
        assert!(place.run("mine").unwrap_err().contains("has no active owner"));
        assert!(place.agents.add(&record("two")).unwrap_err().to_string().contains("has no active owner"));
    }

    #[test]
    fn the_local_agent_stays_as_it_is() {
        let place = Place::new();
        let local = AgentId::local();
        let profile = find_profile(&place.home, "mine").unwrap();
        let agent = active(&place.home, &local, &profile).unwrap();
        assert_eq!(agent.owner, Persons::of(&place.home).login_user().unwrap().name);
        for refused in
            [place.agents.suspend(&local, None), place.agents.retire(&local), place.agents.submit(&local), place.agents.resume(&local)]
        {
            assert!(matches!(refused, Err(RegistryError::Local)));
        }
        assert!(place.agents.add(&AgentRecord::local(&agent.owner).unwrap()).is_err());
        assert_eq!(active(&place.home, &local, &profile).unwrap(), agent);
    }

    #[test]
    fn the_owner_that_an_old_home_names_stays_the_owner() {
        let place = Place::new();
        let old = place.home.agents().join("me.toml");
        std::fs::write(&old, "owner = \"Somebody.Else\"\n").unwrap();
        let profile = find_profile(&place.home, "mine").unwrap();
        let agent = active(&place.home, &AgentId::local(), &profile).unwrap();
        assert_eq!(agent.owner.as_str(), "somebody.else");
        let owner = Persons::of(&place.home).find(&agent.owner).unwrap();
        assert_eq!((owner.identity.as_str(), owner.is_active(), old.exists()), ("Somebody.Else", true, false));
        assert!(matches!(Persons::of(&place.home).retire(&agent.owner), Err(RegistryError::AnswersForLocal(_))));
    }

    #[test]
    fn a_damaged_record_of_old_fails_closed() {
        let place = Place::new();
        std::fs::write(place.home.agents().join("me.toml"), "owner = 7\n").unwrap();
        let profile = find_profile(&place.home, "mine").unwrap();
        assert!(active(&place.home, &AgentId::local(), &profile).unwrap_err().to_string().contains("agents/me.toml"));
    }
}
