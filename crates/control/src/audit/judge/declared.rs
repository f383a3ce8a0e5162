//! What a profile says that a run of it is, as far as its grant and its plan tell.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ringfence_isolation::{Plan, Step};
use ringfence_policy::{Capabilities, Set};

use crate::run::Explained;

/// Certificates that are trusted; those of a run with an authority of its own differ from run to run.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// How the value of a credential's variable begins; the rest differs from run to run.
const PLACEHOLDER: &str = "ringfence-placeholder-";

/// What was granted and planned.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    /// What was granted.
    pub(crate) capabilities: Capabilities,
    /// The image, with its digest.
    pub(crate) image: String,
    /// Who holds each limit.
    pub(crate) grades: BTreeMap<String, String>,
    /// Names in `/`.
    pub(crate) top: BTreeSet<String>,
    /// The workspace, which is the home of the sandbox's user.
    pub(crate) home: String,
    /// Where file systems are mounted; some of them only if the host has the file.
    pub(crate) mounts: BTreeSet<String>,
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Files that are laid over the image.
    pub(crate) files: Vec<(String, String)>,
    /// Sockets that are made inside and served outside.
    pub(crate) doors: BTreeSet<String>,
    /// Addresses of the sandbox's own, with the bits of their ranges.
    pub(crate) addresses: Vec<(Ipv4Addr, u8)>,
}

impl Declared {
    pub(crate) fn of(explained: &Explained, grades: &BTreeMap<String, String>) -> Self {
        let plan = &explained.plan;
        Self {
            capabilities: explained.grant.capabilities.clone(),
            image: explained.image.clone(),
            grades: grades.clone(),
            top: explained.top.clone(),
            home: plan.workspace.clone(),
            mounts: mount_points(plan),
            environment: plan.environment.clone(),
            files: files(plan),
            doors: plan.doors().map(|door| door.to_string()).collect(),
            addresses: addresses(plan),
        }
    }

    /// Folders of the sandbox that its programs may write.
    pub(crate) fn writable(&self) -> [&str; 3] {
        ["/dev/shm", "/tmp", &self.home]
    }

    /// True if a line of the environment is a placeholder of some credential.
    pub(crate) fn is_placeholder(&self, line: &str) -> bool {
        let Some((name, value)) = line.split_once('=') else { return false };
        let is_bound = match &self.capabilities.credentials {
            Set::Only(bindings) => bindings.iter().any(|binding| binding.variable.as_str() == name),
            Set::All => false,
        };
        is_bound && value.starts_with(PLACEHOLDER)
    }
}

/// Files that are laid over the image, and are the same in every run.
pub(crate) fn files(plan: &Plan) -> Vec<(String, String)> {
    let laid = |step: &Step| match step {
        Step::Veil { layer, replaced, .. } => {
            let folder = layer.strip_prefix("given")?.replacen('-', "/", 1);
            Some(replaced.iter().map(move |(path, text)| (format!("{folder}/{}", path.escaped()), text.clone())).collect::<Vec<_>>())
        }
        _ => None,
    };
    plan.steps.iter().filter_map(laid).flatten().filter(|(path, _)| path != BUNDLE).collect()
}

fn addresses(plan: &Plan) -> Vec<(Ipv4Addr, u8)> {
    let given = |step: &Step| if let Step::Address { address, bits, .. } = step { Some((*address, *bits)) } else { None };
    std::iter::once((Ipv4Addr::LOCALHOST, 8)).chain(plan.steps.iter().filter_map(given)).collect()
}

/// Where the plan mounts something in the new root.
fn mount_points(plan: &Plan) -> BTreeSet<String> {
    let at = |step: &Step| match step {
        Step::Tmpfs { at, .. } | Step::Union { at, .. } | Step::View { at, .. } | Step::Terminals { at, .. } => Some(at.clone()),
        Step::Proc { at } | Step::Mask { at } | Step::BootId { at } | Step::Tree { at, .. } | Step::Disk { at, .. } => Some(at.clone()),
        Step::Bind { to, .. } => Some(to.clone()),
        Step::Device { name } => Some(format!("root/dev/{name}")),
        Step::Folder { .. } | Step::Copy { .. } | Step::Veil { .. } | Step::Link { .. } | Step::ReadOnly { .. } => None,
        Step::HostName { .. } | Step::Loopback | Step::Address { .. } | Step::Door { .. } | Step::Enter => None,
    };
    let inside = |at: String| match at.strip_prefix("root")? {
        "" => Some("/".to_owned()),
        path => path.starts_with('/').then(|| path.to_owned()),
    };
    plan.steps.iter().filter_map(at).filter_map(inside).collect()
}
