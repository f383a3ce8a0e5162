//! Limits of what crosses: requests and bytes, of the proxy and of the index together. Whoever asks is refused from then on, and the run goes on.

use ringfence_policy::{Capabilities, LimitKey, PackageMode};

use super::super::AuditError;
use super::super::bait::Names;
use super::super::facts::Facts;
use super::super::probing::Probing;
use super::super::ways;
use super::{LimitMeasured, Lowered};

/// Questions of which the answers together are longer than the lowered limit of bytes.
const SMALL: u64 = 8;

/// What stands in a refusal by a limit.
fn by_the_limit(facts: &Facts, tried: &str, key: LimitKey) -> bool {
    facts.status(tried) == Some(403) && facts.text(tried).contains(&format!("limit `{key}` is reached"))
}

impl Lowered {
    /// Asks once more than is allowed: the last is refused by the limit, and none before.
    pub(super) fn requests(
        &self,
        probing: &Probing<'_>,
        names: &Names,
        capabilities: &Capabilities,
    ) -> Result<Option<LimitMeasured>, AuditError> {
        const KEY: LimitKey = LimitKey::NetworkRequests;
        let Some(lowered) = self.get(KEY) else { return Ok(None) };
        if !has_way(capabilities) {
            return Ok(self.unmeasured(KEY, NO_WAY));
        }
        let attempts = ways::counted(names, capabilities, lowered + 1);
        let run = probing.limited(attempts.clone(), self.only(&[KEY]), Vec::new())?;
        let refused = attempts.iter().map(|tried| by_the_limit(&run.facts, tried, KEY));
        let first = refused.enumerate().find(|(_, is_refused)| *is_refused).map(|(number, _)| number as u64 + 1);
        let met = first.map_or("none of them was refused by it".to_owned(), |first| format!("request {first} was refused by it"));
        Ok(self.measured(KEY, met, first == Some(lowered + 1)))
    }

    /// The index answers with a few bytes to anything. A host would be needed to send some through the proxy.
    pub(super) fn bytes(&self, probing: &Probing<'_>, capabilities: &Capabilities) -> Result<Option<LimitMeasured>, AuditError> {
        const KEY: LimitKey = LimitKey::NetworkBytes;
        let Some(lowered) = self.get(KEY) else { return Ok(None) };
        if !has_way(capabilities) {
            return Ok(self.unmeasured(KEY, NO_WAY));
        }
        if capabilities.packages.most() == PackageMode::None {
            return Ok(self.unmeasured(KEY, "held by the broker, and a host outside would be needed to try it"));
        }
        let attempts: Vec<String> = (1..=SMALL).map(ways::small).collect();
        let run = probing.limited(attempts.clone(), self.only(&[KEY]), Vec::new())?;
        let passed: u64 = attempts.iter().filter(|tried| !by_the_limit(&run.facts, tried, KEY)).map(|tried| body(&run.facts, tried)).sum();
        let is_met = attempts.iter().any(|tried| by_the_limit(&run.facts, tried, KEY));
        Ok(self.measured(KEY, format!("{} came through", KEY.show(passed)), is_met && passed <= lowered))
    }
}

const NO_WAY: &str = "there is no way by which anything could cross";

fn has_way(capabilities: &Capabilities) -> bool {
    capabilities.packages.most() != PackageMode::None || !ways::listed(capabilities).is_empty()
}

/// Bytes of an answer after its head.
fn body(facts: &Facts, tried: &str) -> u64 {
    facts.text(tried).split_once("\r\n\r\n").map_or(0, |(_, body)| body.len() as u64)
}
