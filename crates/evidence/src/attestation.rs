//! What public tools know how to read: SLSA provenance of an artifact, made from the record of its run, and an in-toto test result of checks.
//! Sources: SLSA v1.1, provenance/v1; in-toto attestation framework, spec/predicates/test-result.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::canonical;
use crate::chain::Line;
use crate::digest::Digest;
use crate::envelope::{Statement, Subject};
use crate::event::Event;
use crate::verify::Verified;

/// `predicateType` of provenance.
pub const PROVENANCE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// `predicateType` of a test result.
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// `buildType`: how a run turns what is asked into artifacts.
const BUILD_TYPE: &str = "urn:ringfence:run:v1";

/// Something that is referred to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceDescriptor {
    /// Its name.
    pub name: String,
    /// Its digests by algorithm, in hexadecimal.
    pub digest: BTreeMap<String, String>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Value>,
}

impl ResourceDescriptor {
    /// Something known by the SHA-256 of its bytes.
    pub fn new(name: &str, digest: Digest) -> Self {
        let Subject { name, digest } = Subject::new(name, digest);
        Self { name, digest, annotations: BTreeMap::new() }
    }
}

/// How an artifact came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Provenance {
    /// From what.
    pub build_definition: BuildDefinition,
    /// By whom, and when.
    pub run_details: RunDetails,
}

/// From what an artifact was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BuildDefinition {
    /// Always a run of ringfence.
    pub build_type: String,
    /// Who asked for what, and what was granted.
    pub external_parameters: Value,
    /// How the sandbox was made.
    pub internal_parameters: Value,
    /// The image and the inputs.
    pub resolved_dependencies: Vec<ResourceDescriptor>,
}

/// By whom an artifact was made, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunDetails {
    /// The version of ringfence.
    pub builder: Value,
    /// The run, with its times.
    pub metadata: Value,
    /// Its own evidence, and the other artifacts.
    pub byproducts: Vec<ResourceDescriptor>,
}

/// The provenance of one artifact of a run whose evidence holds.
pub fn provenance(verified: &Verified, artifact: &Digest) -> Statement<Provenance> {
    let made = verified.artifacts();
    let subjects = made.iter().filter(|made| made.sha256 == *artifact).map(|made| Subject::new(&made.path, made.sha256)).collect();
    let mut byproducts = vec![ResourceDescriptor::new(crate::STATEMENT_FILE, verified.digest)];
    byproducts.extend(made.iter().filter(|made| made.sha256 != *artifact).map(|made| ResourceDescriptor::new(&made.path, made.sha256)));
    let seal = &verified.statement.predicate;
    let at = |line: Option<&Line>| line.map(|line| line.at.clone());
    let (first, last) = (at(verified.lines.first()), at(verified.lines.last()));
    let run_details = RunDetails {
        builder: json!({ "id": "urn:ringfence", "version": { "ringfence": seal.version } }),
        metadata: json!({ "invocationId": seal.run, "startedOn": first, "finishedOn": last }),
        byproducts,
    };
    Statement::new(subjects, PROVENANCE_TYPE, Provenance { build_definition: definition(&verified.lines), run_details })
}

fn definition(lines: &[Line]) -> BuildDefinition {
    let mut definition = BuildDefinition {
        build_type: BUILD_TYPE.to_owned(),
        external_parameters: Value::Null,
        internal_parameters: Value::Null,
        resolved_dependencies: Vec::new(),
    };
    for line in lines {
        match &line.event {
            Event::RunRequested { .. } => definition.external_parameters = without(&line.event, &["event", "run", "version"]),
            Event::RunGranted { grant } => {
                let grant = canonical(grant).unwrap_or_default();
                definition.external_parameters["grant_digest"] = json!(Digest::of(grant.as_bytes()));
            }
            Event::InputAdded { input } => {
                let mut input_descriptor = ResourceDescriptor::new(&format!("{} {}", input.kind, input.name), input.sha256);
                input_descriptor.annotations.insert("digestOf".to_owned(), json!(input.digest_of));
                definition.resolved_dependencies.push(input_descriptor);
            }
            Event::SandboxCreating { image, image_digest, .. } => {
                let name = format!("image {}", image.as_deref().unwrap_or("host"));
                definition.resolved_dependencies.push(ResourceDescriptor::new(&name, *image_digest));
                definition.internal_parameters = without(&line.event, &["event", "image", "image_digest"]);
            }
            Event::PackageServed { package } => {
                let digest = package.sha256.parse().unwrap_or_else(|_| Digest::zero());
                let name = format!("package {}:{} {}", package.ecosystem, package.name, package.version);
                definition.resolved_dependencies.push(ResourceDescriptor::new(&name, digest));
            }
            _ => {}
        }
    }
    definition
}

fn without(event: &Event, fields: &[&str]) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.retain(|name, _| !fields.contains(&name.as_str()));
    }
    value
}

/// What checks said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TestResult {
    /// `PASSED` or `FAILED`: by exit status alone, whatever a check printed.
    pub result: String,
    /// The runs in which they ran, and what they ran on.
    pub configuration: Vec<ResourceDescriptor>,
    /// Those that ended with status 0.
    pub passed_tests: Vec<String>,
    /// Those that did not.
    pub failed_tests: Vec<String>,
}
