//! The receipt: how a promotion ended, signed, naming every file of its evidence and, where it took effect, what the target then held. With it the
//! folder proves itself, without a store and by public tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ringfence_evidence::{Digest, PROVENANCE_TYPE, PublicKey, Statement, Subject, TEST_RESULT_TYPE, TestResult, canonical};
use ringfence_patch::plain_or_quoted;
use ringfence_store::{ApprovalRow, Verdict};
use serde::{Deserialize, Serialize};

use super::checks::descriptor;
use super::document::{Asked, Content, Prepared};
use super::folder::Folder;
use super::{ASKED, LOCK, PREPARED, PROVENANCE, RECEIPT, TEST_RESULT};
use crate::approvals::{ApprovalRequest, Matter, PREVIEW, covers, open_decision, open_standing};
use crate::promotion::error::PromotionError;
use crate::registry::Persons;
use crate::run::Runner;

/// `predicateType` of a receipt.
pub const RECEIPT_TYPE: &str = "urn:ringfence:promotion:v1";

/// What a receipt says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The promotion.
    pub promotion: String,
    /// The one that it took back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// How it ended.
    pub state: String,
    /// Why, if not by taking effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// When, RFC 3339 in UTC.
    pub ended_at: String,
    /// The target's name.
    pub target: String,
    /// What it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Content>,
    /// What it holds, or would have held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Content>,
    /// Who decided.
    pub decisions: Vec<DecisionRecord>,
    /// Files of evidence, by name.
    pub evidence: BTreeMap<String, Digest>,
    /// Version of ringfence.
    pub version: String,
}

/// A decision as a receipt names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRecord {
    /// The approval.
    pub approval: String,
    /// How the approval ended.
    pub state: String,
    /// Who.
    pub person: String,
    /// What.
    pub verdict: String,
    /// The file that holds it, signed.
    pub file: String,
    /// The public key that signed it, PEM.
    pub key: String,
}

/// Writes down approvals and decisions beside the rest, and the receipt over all of it.
pub(super) fn write(
    runner: &Runner,
    folder: &Folder,
    asked: &Asked,
    prepared: Option<&Prepared>,
    approvals: &[ApprovalRow],
    end: &super::End<'_>,
) -> Result<Digest, PromotionError> {
    folder.clear_drafts()?;
    let decisions = keep_decisions(runner, folder, approvals)?;
    let evidence: BTreeMap<String, Digest> = folder.files()?.into_iter().collect();
    let receipt = Receipt {
        promotion: asked.promotion.clone(),
        undoes: asked.undoes.clone(),
        state: end.state.word().to_owned(),
        cause: end.cause.to_owned(),
        ended_at: crate::moment::in_words(end.at),
        target: asked.target.name.to_string(),
        base: prepared.map(|prepared| prepared.base.clone()),
        result: prepared.map(|prepared| prepared.result.clone()),
        decisions,
        evidence,
        version: crate::VERSION.to_owned(),
    };
    let signed = Statement::new(subjects(&receipt, asked), RECEIPT_TYPE, receipt).sign(&runner.key);
    let signed = signed.map_err(|e| PromotionError::Document { id: asked.promotion.clone(), cause: e.to_string() })?;
    folder.keep(RECEIPT, &signed)
}

/// The artifact, what the target holds if it took effect, and every file of evidence.
fn subjects(receipt: &Receipt, asked: &Asked) -> Vec<Subject> {
    let mut subjects = vec![Subject::new(&asked.what.path, asked.what.artifact)];
    if let (true, Some(result)) = (receipt.state == "applied", &receipt.result) {
        let result = descriptor("result", result);
        subjects.push(Subject { name: result.name, digest: result.digest });
    }
    subjects.extend(receipt.evidence.iter().map(|(name, digest)| Subject::new(name, *digest)));
    subjects
}

fn keep_decisions(runner: &Runner, folder: &Folder, approvals: &[ApprovalRow]) -> Result<Vec<DecisionRecord>, PromotionError> {
    let persons = Persons::of(&runner.home).all()?;
    let mut records = Vec::new();
    for approval in approvals {
        folder.keep(&format!("approval-{}.json", approval.id), approval.request.as_bytes())?;
        let request: Option<ApprovalRequest> = serde_json::from_str(&approval.request).ok();
        for made in &approval.decisions {
            let key = persons.iter().filter_map(|person| person.key.as_ref()).find(|key| key.id() == made.key);
            // What nobody signed is no decision, whoever wrote it into the store.
            let digest = Digest::of(approval.request.as_bytes());
            let is_said = |key: &&PublicKey| request.as_ref().is_some_and(|request| says(&made.envelope, key, &digest, request).is_ok());
            let Some(key) = key.filter(is_said) else { continue };
            let file = format!("decision-{}-{}-{}.dsse.json", approval.id, made.person, made.verdict);
            folder.keep(&file, made.envelope.as_bytes())?;
            records.push(DecisionRecord {
                approval: approval.id.clone(),
                state: approval.state.word().to_owned(),
                person: made.person.clone(),
                verdict: made.verdict.word().to_owned(),
                file,
                key: key.to_pem().unwrap_or_default(),
            });
        }
    }
    Ok(records)
}

/// Verifies a promotion's folder, offline: the receipt by the key, every file by its digest, every decision by its person's key, and that enough
/// different persons agreed to what took effect.
pub fn verify_promotion(folder: &Path, key: &PublicKey) -> Result<Statement<Receipt>, String> {
    let read = |name: &str| fs::read(folder.join(name)).map_err(|e| format!("{name}: {e}"));
    let statement: Statement<Receipt> =
        Statement::open(&read(RECEIPT)?, key, RECEIPT_TYPE).map_err(|cause| format!("{RECEIPT}: {cause}"))?;
    let receipt = &statement.predicate;
    for (name, digest) in &receipt.evidence {
        if Digest::of(&read(name)?) != *digest {
            return Err(format!("{name}: is not the file that was sealed: its digest differs"));
        }
    }
    let asked: Asked = document(&read(ASKED)?, ASKED)?;
    if subjects(receipt, &asked) != statement.subject {
        return Err(format!("{RECEIPT}: names other things than it speaks of"));
    }
    nothing_else(folder, receipt)?;
    signed_by_us(receipt, key, &read)?;
    agree(receipt, &read)?;
    Ok(statement)
}

/// No file is there that the receipt does not name.
fn nothing_else(folder: &Path, receipt: &Receipt) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut stray = names.filter(|name| name != RECEIPT && name != LOCK && !receipt.evidence.contains_key(name));
    stray.next().map_or(Ok(()), |name| Err(format!("{}: is not named by the receipt", plain_or_quoted(name.as_bytes()))))
}

/// Provenance is about the artifact, and the checks passed on what the target then held.
fn signed_by_us(receipt: &Receipt, key: &PublicKey, read: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<(), String> {
    let is_here = |name: &str| receipt.evidence.contains_key(name);
    let asked: Asked = document(&read(ASKED)?, ASKED)?;
    if is_here(PROVENANCE) {
        let open = Statement::<serde_json::Value>::open(&read(PROVENANCE)?, key, PROVENANCE_TYPE);
        let statement = open.map_err(|cause| format!("{PROVENANCE}: {cause}"))?;
        if !statement.subject.iter().any(|subject| subject.is(&asked.what.path, &asked.what.artifact)) {
            return Err(format!("{PROVENANCE}: is about another artifact"));
        }
    }
    if is_here(TEST_RESULT) {
        let open = Statement::<TestResult>::open(&read(TEST_RESULT)?, key, TEST_RESULT_TYPE);
        let statement = open.map_err(|cause| format!("{TEST_RESULT}: {cause}"))?;
        let tested = receipt.result.as_ref().map(|result| descriptor("result", result));
        let is_tested = tested.is_some_and(|tested| statement.subject.iter().any(|subject| subject.digest == tested.digest));
        let must_pass = receipt.state == "applied" && receipt.undoes.is_none();
        if must_pass && !(is_tested && statement.predicate.result == "PASSED") {
            return Err(format!("{TEST_RESULT}: it took effect, but this is not what passed the checks"));
        }
    }
    Ok(())
}

fn document<T: for<'de> Deserialize<'de> + Serialize>(bytes: &[u8], name: &str) -> Result<T, String> {
    let value: T = serde_json::from_slice(bytes).map_err(|e| format!("{name}: {e}"))?;
    match canonical(&value).is_ok_and(|text| text.as_bytes() == bytes) {
        true => Ok(value),
        false => Err(format!("{name}: is not in canonical form")),
    }
}

/// Each decision is signed by the key that the receipt names, about the request that is here; each request is about what was asked and prepared.
fn agree(receipt: &Receipt, read: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<(), String> {
    let requests: Vec<&String> = receipt.evidence.keys().filter(|name| name.starts_with("approval-")).collect();
    let prepared: Option<Prepared> = receipt.evidence.contains_key(PREPARED).then(|| document(&read(PREPARED)?, PREPARED)).transpose()?;
    let wanted = 1 + usize::from(prepared.is_some_and(|prepared| !prepared.protected.is_empty()));
    if receipt.state == "applied" && requests.len() < wanted {
        return Err(format!("{RECEIPT}: it took effect, but {} of {wanted} approvals are here", requests.len()));
    }
    for name in requests {
        let bytes = read(name)?;
        let request: ApprovalRequest = document(&bytes, name)?;
        is_about(&request, receipt).map_err(|cause| format!("{name}: {cause}"))?;
        let mut agreed: BTreeMap<String, &str> = BTreeMap::new();
        for made in receipt.decisions.iter().filter(|made| made.approval == request.approval) {
            let key = PublicKey::from_pem(&made.key).map_err(|e| format!("{}: {e}", made.file))?;
            let envelope = String::from_utf8(read(&made.file)?).map_err(|_| format!("{}: is not text", made.file))?;
            let said = says(&envelope, &key, &Digest::of(&bytes), &request);
            let (person, verdict) = said.map_err(|cause| format!("{}: {cause}", made.file))?;
            if (person.as_str(), verdict.as_str()) != (made.person.as_str(), made.verdict.as_str()) {
                return Err(format!("{}: says something else than the receipt", made.file));
            }
            if verdict == Verdict::Approve.word() && !request.excluded.contains(&person) {
                agreed.insert(key.id(), &made.person);
            }
        }
        if receipt.state == "applied" && agreed.len() < request.consent.quorum as usize {
            return Err(format!("{name}: it took effect, but {} agreed where {} had to", agreed.len(), request.consent.quorum));
        }
    }
    Ok(())
}

/// A request is about what was asked, prepared and shown here, and nothing else.
fn is_about(request: &ApprovalRequest, receipt: &Receipt) -> Result<(), String> {
    let Matter::Promotion { asked, base, result, evidence, .. } = &request.matter else { return Err("is about no promotion".into()) };
    let is_here = |name: &str, digest: &Digest| receipt.evidence.get(name) == Some(digest);
    let is_same = is_here(ASKED, asked)
        && is_here(PREVIEW, &request.preview)
        && evidence.iter().all(|(name, digest)| is_here(name, digest))
        && (receipt.base.as_ref(), receipt.result.as_ref()) == (Some(base.as_ref()), Some(result.as_ref()));
    if is_same { Ok(()) } else { Err("is about something else than the receipt".into()) }
}

/// Who says what in an envelope that `key` signed.
fn says(envelope: &str, key: &PublicKey, digest: &Digest, request: &ApprovalRequest) -> Result<(String, String), String> {
    let decided = open_decision(envelope, key, digest, &request.preview).map(|decision| (decision.person, decision.verdict));
    decided.or_else(|cause| {
        let grant = open_standing(envelope, key).map_err(|_| cause)?;
        match covers(&grant, &grant.person, request) {
            true => Ok((grant.person, Verdict::Approve.word().to_owned())),
            false => Err("is a standing grant for something else".into()),
        }
    })
}

/// Reads what is on record of a promotion.
pub(super) fn read_documents(id: &str, request: &str, prepared: Option<&str>) -> Result<(Asked, Option<Prepared>), PromotionError> {
    let unread = |e: serde_json::Error| PromotionError::Document { id: id.to_owned(), cause: e.to_string() };
    let asked = serde_json::from_str(request).map_err(unread)?;
    Ok((asked, prepared.map(serde_json::from_str).transpose().map_err(unread)?))
}
