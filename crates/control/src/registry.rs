//! Registered agents. Each run belongs to one, and each has an owner who answers for it. The local agent `me` is made at first use, owned by the
//! login user.

use std::fs;
use std::path::PathBuf;

use ringfence_policy::{Bound, Capabilities};
use ringfence_store::{Home, draft_of, hint_for};
use serde::{Deserialize, Serialize};

/// The agent of whoever sits at this machine.
const LOCAL: &str = "me";

/// A registered agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub id: String,
    /// Who answers for it.
    pub owner: String,
    /// What it may do at most.
    pub bound: Bound,
}

/// Why an agent may not run.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Nobody of that name.
    #[error("agent `{0}` is not registered")]
    Unknown(String),
    /// Its record could not be read or made.
    #[error("the record of agent `{id}` at `{path}`: {source}")]
    File {
        /// The agent.
        id: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its record says something else.
    #[error("the record of agent `{id}` at `{path}`: {cause}")]
    Record {
        /// The agent.
        id: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

impl RegistryError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown(_) => format!("this version knows the local agent `{LOCAL}`; leave --agent out"),
            Self::File { source, path, .. } => hint_for(source, path),
            Self::Record { path, .. } => format!("correct or remove `{}`", path.display()),
        }
    }
}

/// An agent's record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentRecord {
    owner: String,
}

/// The agent of that name, if it may run.
pub fn active(home: &Home, id: &str) -> Result<Agent, RegistryError> {
    if id != LOCAL {
        return Err(RegistryError::Unknown(id.escape_debug().to_string()));
    }
    let path = home.agents().join(format!("{LOCAL}.toml"));
    let unread = |source| RegistryError::File { id: id.to_owned(), path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            make_local(&path).map_err(unread)?;
            fs::read_to_string(&path)
        }
        read => read,
    };
    let broken = |e: toml::de::Error| RegistryError::Record { id: id.to_owned(), path: path.clone(), cause: e.message().to_owned() };
    let record: AgentRecord = toml::from_str(&text.map_err(unread)?).map_err(broken)?;
    Ok(Agent { id: id.to_owned(), owner: record.owner, bound: Capabilities::unlimited() })
}

/// Put in place whole, however many are at their first use.
fn make_local(path: &std::path::Path) -> std::io::Result<()> {
    let text = toml::to_string(&AgentRecord { owner: login_user() }).map_err(std::io::Error::other)?;
    let draft = draft_of(path);
    let made = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if made.is_err() {
        // What could not be made whole is not kept; the error is what matters.
        fs::remove_file(&draft).unwrap_or_default();
    }
    made
}

/// The name of the user who runs this, by the password file.
fn login_user() -> String {
    let uid = rustix::process::getuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("uid-{uid}"))
}
