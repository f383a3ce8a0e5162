//! Approvals of agents: each submitted revision is asked about, and serves once enough have agreed. What a crash left between the two is made up for
//! by whoever comes next, by what the store and the registry say.

use std::fs;
use std::os::unix::fs::DirBuilderExt;

use ringfence_evidence::Digest;
use ringfence_isolation::OsText;
use ringfence_patch::{Blob, Edit, Mode, render};
use ringfence_policy::AgentId;
use ringfence_store::{ApprovalRow, ApprovalState, NewApproval, RunId, write_whole};

use super::{ApprovalError, ApprovalRequest, Approvals, Electorate, Matter, PREVIEW};
use crate::moment;
use crate::registry::{Agents, PendingRevision, Persons, RevisionState};
use crate::settings::Settings;

impl Approvals {
    /// Asks about the revision of an agent that waits, unless persons are asked about it already. Answers with the approval, if there is one.
    pub fn ask_about(&mut self, id: &AgentId, settings: &Settings) -> Result<Option<String>, ApprovalError> {
        let agents = Agents::of(&self.home);
        let Some(pending) = agents.pending(id)? else { return Ok(None) };
        let open =
            self.authority.approvals_of(&subject(id))?.into_iter().find(|row| is_open(row) && version_of(row) == Some(pending.version));
        if let Some(row) = open {
            return Ok(Some(row.id));
        }
        let (approval, preview) = (new_name()?, self.preview_of(&agents, id, &pending)?);
        let request = self.request(&approval, id, &pending, settings, Digest::of(preview.as_bytes()))?;
        self.keep_preview(&approval, &preview)?;
        let (text, digest) = request.1.text().map_err(|e| ApprovalError::Sign(e.to_string()))?;
        self.authority.ask_alone(&NewApproval {
            id: approval.clone(),
            subject: subject(id),
            request: text,
            digest: digest.to_string(),
            quorum: settings.agents.quorum,
            decide_by: request.0,
            execute_for: i64::try_from(settings.agents.execute_within_ms).unwrap_or(i64::MAX),
        })?;
        Ok(Some(approval))
    }

    fn request(
        &mut self,
        approval: &str,
        id: &AgentId,
        pending: &PendingRevision,
        settings: &Settings,
        preview: Digest,
    ) -> Result<(i64, ApprovalRequest), ApprovalError> {
        let consent = settings.agents.clone();
        let decide_by = self.authority.now()?.saturating_add(i64::try_from(consent.decide_within_ms).unwrap_or(i64::MAX));
        let requested_by = Persons::of(&self.home).login_user()?.name.to_string();
        let owner = pending.record.owner.to_string();
        let excluded = if consent.exclude_owner { vec![owner.clone(), requested_by.clone()] } else { Vec::new() };
        let request = ApprovalRequest {
            approval: approval.to_owned(),
            subject: subject(id),
            matter: Matter::Agent { agent: id.to_string(), version: pending.version, owner },
            policy: settings.digest,
            requested_by,
            preview,
            consent,
            excluded,
            decide_by: moment::in_words(decide_by),
        };
        Ok((decide_by, request))
    }

    /// The record that would serve, beside the one that serves.
    fn preview_of(&self, agents: &Agents, id: &AgentId, pending: &PendingRevision) -> Result<String, ApprovalError> {
        let serving = agents.find(id)?.revision(RevisionState::Active).map(|revision| revision.text());
        let blob = |text: String| Blob { mode: Mode::Plain, bytes: text.into_bytes() };
        let edit = Edit { path: format!("{id}.toml").into_bytes(), old: serving.map(blob), new: Some(blob(pending.text.clone())) };
        let owner = OsText::from(pending.record.owner.as_str());
        Ok(format!(
            "lets revision {} of agent {id} serve, owned by {owner}\n  version    {}\n\n{}",
            pending.number,
            pending.version,
            render(&[edit])
        ))
    }

    fn keep_preview(&self, approval: &str, preview: &str) -> Result<(), ApprovalError> {
        let folder = self.home.approvals().join(approval);
        let failed = |source| ApprovalError::Preview { path: folder.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        Ok(write_whole(&folder.join(PREVIEW), preview.as_bytes(), 0o600)?)
    }

    /// Lets every revision serve that enough have agreed to, and puts those aside that somebody denied.
    pub fn settle_agents(&mut self) -> Result<(), ApprovalError> {
        let agents = Agents::of(&self.home);
        for agent in agents.all()? {
            let Some(pending) = agents.pending(&agent.id)? else { continue };
            let rows = self.authority.approvals_of(&subject(&agent.id))?;
            let row = rows.into_iter().rev().find(|row| version_of(row) == Some(pending.version));
            if let Some(row) = row {
                self.settle_agent(&agents, &agent.id, &pending, &row)?;
            }
        }
        Ok(())
    }

    fn settle_agent(&mut self, agents: &Agents, id: &AgentId, pending: &PendingRevision, row: &ApprovalRow) -> Result<(), ApprovalError> {
        let electorate = Electorate::of(&self.home)?;
        let is_used = match row.state {
            ApprovalState::Approved => self.authority.consume(&row.id, &|row, made| electorate.counts(row, made))?,
            // It was used, and whoever used it came no further.
            ApprovalState::Consumed => true,
            ApprovalState::Denied => {
                agents.refuse(id, &pending.version, &row.id)?;
                false
            }
            ApprovalState::Pending | ApprovalState::Expired | ApprovalState::Stale => false,
        };
        if is_used {
            agents.activate(id, &pending.version, &row.id)?;
        }
        Ok(())
    }
}

/// What an approval of an agent is for, apart from names of promotions.
fn subject(id: &AgentId) -> String {
    format!("agent:{id}")
}

fn is_open(row: &ApprovalRow) -> bool {
    matches!(row.state, ApprovalState::Pending | ApprovalState::Approved)
}

fn version_of(row: &ApprovalRow) -> Option<Digest> {
    let request: ApprovalRequest = serde_json::from_str(&row.request).ok()?;
    match request.matter {
        Matter::Agent { version, .. } => Some(version),
        Matter::Promotion { .. } => None,
    }
}

fn new_name() -> Result<String, ApprovalError> {
    RunId::new().map(|id| id.to_string()).map_err(|e| ApprovalError::Sign(format!("no random bytes for a name: {e}")))
}
