//! Node's index: a document of all versions for each package, and the tarballs.
//!
//! Versions that a rule refuses move from `versions` to `policyRestrictions`, which npm knows: asked for one of them, it prints the reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ringfence_policy::{Ecosystem, PackageName, PackageVersion};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::answer::{self, Answer, Denied};
use super::archive::Format;
use super::digest::{Algorithm, FileHash};
use super::file::Wanted;
use super::index::{Index, blocking};
use super::rules::{Candidate, Refusal};

/// The form in which npm asks for what an install needs.
const ABBREVIATED: &str = "application/vnd.npm.install-v1+json";

/// What that form has of a version.
const ABBREVIATED_KEYS: [&str; 20] = [
    "name",
    "version",
    "deprecated",
    "dependencies",
    "optionalDependencies",
    "devDependencies",
    "bundleDependencies",
    "bundledDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "acceptDependencies",
    "bin",
    "directories",
    "dist",
    "engines",
    "funding",
    "_hasShrinkwrap",
    "hasInstallScript",
    "os",
    "cpu",
];

/// No more reasons than a person reads.
const MOST_REASONS: usize = 5;

/// One version, and what the rules say of it.
struct Judged {
    text: String,
    version: PackageVersion,
    manifest: Value,
    hashes: Vec<FileHash>,
    verdict: Result<(), Refusal>,
}

/// A package's document, judged.
struct Document {
    name: PackageName,
    whole: Map<String, Value>,
    versions: Vec<Judged>,
}

impl Index {
    pub(super) async fn node(self: &Arc<Self>, path: &[&str], accept: &str) -> Answer {
        let answer = match path {
            [scope, name, "-", file] if scope.starts_with('@') => self.node_file(&format!("{scope}/{name}"), file).await,
            [name, "-", file] => self.node_file(name, file).await,
            [scope, name] if scope.starts_with('@') => self.node_page(&format!("{scope}/{name}"), accept).await,
            [name] if *name != "-" => self.node_page(name, accept).await,
            _ => Err(Denied::Absent("such path".to_owned())),
        };
        answer.unwrap_or_else(|denied| denied.answer_json())
    }

    async fn node_document(self: &Arc<Self>, name: &str) -> Result<Document, Denied> {
        let name = self.allowed_name(Ecosystem::Node, name).await?;
        let client = self.client(Ecosystem::Node)?;
        let encoded = utf8_percent_encode(name.as_str(), NON_ALPHANUMERIC).to_string().replace("%40", "@");
        let encoded = ["-", "_", "."].iter().fold(encoded, |text, plain| text.replace(&format!("%{:02X}", plain.as_bytes()[0]), plain));
        let url = client.upstream.url.join(&format!("./{encoded}")).map_err(|_| Denied::Absent(name.to_string()))?;
        // Only the whole document says when each version was published.
        let said = self.page(Ecosystem::Node, &url, "application/json").await?;
        let index = Arc::clone(self);
        let document = blocking(move || {
            let whole: Option<Map<String, Value>> = serde_json::from_slice(&said.body).ok();
            let unreadable = || Denied::Upstream { ecosystem: Ecosystem::Node, why: "its answer is no package".to_owned() };
            index.node_judged(name, whole.ok_or_else(unreadable)?)
        })
        .await?;
        let left_out = document.versions.iter().filter_map(|judged| Some((&judged.version, judged.verdict.as_ref().err()?)));
        let is_nothing_left = document.versions.iter().all(|judged| judged.verdict.is_err());
        self.tell_left_out_of(Ecosystem::Node, &document.name, left_out, is_nothing_left).await;
        Ok(document)
    }

    fn node_judged(&self, name: PackageName, mut whole: Map<String, Value>) -> Result<Document, Denied> {
        let told = match whole.remove("versions") {
            Some(Value::Object(versions)) => versions,
            _ => Map::new(),
        };
        let (rules, times) = (self.rules(Ecosystem::Node), whole.get("time").cloned().unwrap_or_default());
        let judge = |(text, manifest): (String, Value)| {
            let version = PackageVersion::parse(Ecosystem::Node, &text).ok()?;
            let hashes = hashes(&manifest["dist"]);
            let published_at = times[&text].as_str().and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok());
            let has_scripts = has_scripts(&manifest);
            let candidate = Candidate { name: &name, version: &version, published_at, hashes: &hashes, is_source: false, has_scripts };
            let verdict = rules.file(&candidate);
            Some(Judged { text, verdict, version, manifest, hashes })
        };
        let versions = told.into_iter().filter_map(judge).collect();
        Ok(Document { name, whole, versions })
    }

    async fn node_page(self: &Arc<Self>, name: &str, accept: &str) -> Result<Answer, Denied> {
        let document = self.node_document(name).await?;
        let (base, is_abbreviated) = (self.base_url.clone(), accept.contains(ABBREVIATED));
        blocking(move || {
            let text = document.rendered(&base, is_abbreviated).to_string();
            Ok(answer::page(if is_abbreviated { ABBREVIATED } else { "application/json" }, text))
        })
        .await
    }

    async fn node_file(self: &Arc<Self>, name: &str, file: &str) -> Result<Answer, Denied> {
        let document = self.node_document(name).await?;
        let absent = || Denied::Absent(file.to_owned());
        let wanted = document.versions.iter().find(|judged| file_name(&document.name, &judged.text) == file).ok_or_else(absent)?;
        if let Err(refusal) = &wanted.verdict {
            return Err(self.refuse_version(Ecosystem::Node, &document.name, &wanted.version, refusal.clone()).await);
        }
        let base = &self.client(Ecosystem::Node)?.upstream.url;
        let url = wanted.manifest["dist"]["tarball"].as_str().and_then(|text| base.join(text).ok()).ok_or_else(absent)?;
        self.file(Wanted {
            ecosystem: Ecosystem::Node,
            version: wanted.version.clone(),
            file: file.to_owned(),
            what: "tarball",
            format: Format::NodeTarball,
            url,
            hashes: wanted.hashes.clone(),
            name: document.name,
        })
        .await
    }
}

impl Document {
    /// The document for the clients inside.
    fn rendered(self, base: &str, is_abbreviated: bool) -> Value {
        let mut whole = self.whole;
        let (mut versions, mut refused, mut reasons) = (Map::new(), Map::new(), BTreeSet::new());
        let times = whole.get("time").cloned().unwrap_or_default();
        for judged in self.versions {
            match judged.verdict {
                Ok(()) => {
                    let tarball = format!("{base}/node/{}/-/{}", self.name, file_name(&self.name, &judged.text));
                    versions.insert(judged.text, manifest(judged.manifest, &tarball, is_abbreviated));
                }
                Err(refusal) => {
                    reasons.insert(refusal.to_string());
                    let manifest = json!({ "name": self.name.as_str(), "version": judged.text });
                    refused.insert(judged.text, manifest);
                }
            }
        }
        whole.insert("dist-tags".to_owned(), tags(whole.get("dist-tags"), &versions, &refused));
        let is_shown = |version: &str| versions.contains_key(version) || version == "created" || version == "modified";
        let shown = times.as_object().map(|times| times.iter().filter(|(version, _)| is_shown(version)));
        let shown: Map<String, Value> = shown.into_iter().flatten().map(|(version, time)| (version.clone(), time.clone())).collect();
        whole.insert("time".to_owned(), Value::Object(shown));
        if !refused.is_empty() {
            let message = reasons.into_iter().take(MOST_REASONS).collect::<Vec<_>>().join("\n");
            whole.insert("policyRestrictions".to_owned(), json!({ "message": message, "versions": refused }));
        }
        whole.insert("versions".to_owned(), Value::Object(versions));
        if is_abbreviated {
            whole.retain(|key, _| ["name", "dist-tags", "versions", "time", "modified", "policyRestrictions"].contains(&key.as_str()));
        }
        Value::Object(whole)
    }
}

/// A version's manifest, with its file here. Its hashes stay as they are.
fn manifest(mut manifest: Value, tarball: &str, is_abbreviated: bool) -> Value {
    let runs = has_scripts(&manifest);
    if let Value::Object(fields) = &mut manifest {
        if is_abbreviated {
            fields.retain(|key, _| ABBREVIATED_KEYS.contains(&key.as_str()));
        }
        if let Some(Value::Object(dist)) = fields.get_mut("dist") {
            dist.insert("tarball".to_owned(), json!(tarball));
        }
        if runs {
            fields.insert("hasInstallScript".to_owned(), json!(true));
        }
    }
    manifest
}

/// Tags of versions that there are. `latest` goes to the greatest version that is left; if none is, it stays, so that npm can say why.
fn tags(told: Option<&Value>, versions: &Map<String, Value>, refused: &Map<String, Value>) -> Value {
    let told = told.and_then(Value::as_object).cloned().unwrap_or_default();
    let is_known = |version: &Value| version.as_str().is_some_and(|text| versions.contains_key(text) || refused.contains_key(text));
    let mut tags: Map<String, Value> = told.into_iter().filter(|(_, version)| is_known(version)).collect();
    let has_latest = tags.get("latest").and_then(Value::as_str).is_some_and(|text| versions.contains_key(text));
    let parsed = versions.keys().filter_map(|text| Some((PackageVersion::parse(Ecosystem::Node, text).ok()?, text)));
    let greatest = parsed.max_by_key(|(version, text)| (!text.contains('-'), version.clone()));
    if let Some((_, text)) = greatest.filter(|_| !has_latest) {
        tags.insert("latest".to_owned(), json!(text));
    }
    Value::Object(tags)
}

/// A file's name in an index: the package's without its scope, and the version.
fn file_name(name: &PackageName, version: &str) -> String {
    format!("{}-{version}.tgz", name.as_str().rsplit('/').next().unwrap_or_default())
}

/// The hashes of a version: its integrity, or the older sum where there is none.
fn hashes(dist: &Value) -> Vec<FileHash> {
    let integrity = dist["integrity"].as_str().map(FileHash::from_integrity).unwrap_or_default();
    match integrity.is_empty() && dist["integrity"].is_null() {
        true => dist["shasum"].as_str().and_then(|digits| FileHash::from_digits(Algorithm::Sha1, digits)).into_iter().collect(),
        false => integrity,
    }
}

/// True if npm would run something of this package's while it installs it.
pub(super) fn has_scripts(manifest: &Value) -> bool {
    let is_set = |name: &str| manifest["scripts"][name].as_str().is_some_and(|script| !script.trim().is_empty());
    manifest["hasInstallScript"] == true || ["preinstall", "install", "postinstall"].into_iter().any(is_set) || manifest["gypfile"] == true
}
