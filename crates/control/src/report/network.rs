//! What a run did on the network, in its report.

use ringfence_egress::{Closed, Opened, Refused};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One decision about the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkReport {
    /// Whether it was allowed.
    pub allowed: bool,
    /// By which way: `connect`, `http`, `socks`, `direct` or `name`.
    pub way: String,
    /// The host; of what was refused, as it was asked.
    pub host: String,
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The address that was dialled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The rule that allowed it, or why it was refused.
    pub rule: String,
    /// Method and path, where somebody reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The credential that was put in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// The status of the reply, where somebody reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes towards the host.
    pub up_bytes: u64,
    /// Bytes from the host.
    pub down_bytes: u64,
    /// How long it took, milliseconds.
    pub ms: u64,
    /// Why it ended, if not by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl NetworkReport {
    pub(crate) fn allowed(opened: &Opened) -> Self {
        Self {
            allowed: true,
            way: opened.way.to_string(),
            host: opened.host.clone(),
            port: Some(opened.port),
            address: Some(opened.address.ip().to_string()),
            rule: opened.rule.clone(),
            request: opened.request.as_ref().map(|request| format!("{} {}", request.method, request.path)),
            credential: opened.credential.clone(),
            ..Self::blank()
        }
    }

    pub(crate) fn refused(refused: &Refused) -> Self {
        Self {
            way: refused.way.to_string(),
            host: refused.host.clone(),
            port: refused.port,
            rule: refused.reason.clone(),
            request: refused.request.as_ref().map(|request| format!("{} {}", request.method, request.path)),
            ..Self::blank()
        }
    }

    pub(crate) fn close(&mut self, closed: &Closed) {
        (self.up_bytes, self.down_bytes, self.ms) = (closed.up_bytes, closed.down_bytes, closed.ms);
        (self.status, self.cause) = (closed.status, closed.cause.clone());
        if let Some(address) = closed.address {
            self.address = Some(address.ip().to_string());
        }
    }

    fn blank() -> Self {
        Self {
            allowed: false,
            way: String::new(),
            host: String::new(),
            port: None,
            address: None,
            rule: String::new(),
            request: None,
            credential: None,
            status: None,
            up_bytes: 0,
            down_bytes: 0,
            ms: 0,
            cause: None,
        }
    }
}
