//! What a sandbox uses.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, State};
use http::Uri;
use ringfence_policy::LimitKey;
use serde_json::{Value, json};

use super::owned;
use crate::asked::By;
use crate::e2b::envd::query;
use crate::e2b::error::E2bError;
use crate::e2b::sandboxes::Sandbox;
use crate::moment::rfc3339;
use crate::serving::Serving;

/// One point, if now is between `start` and `end`: what is used now. What was used before is in the record once it is over.
pub(super) async fn metrics(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Vec<Value>>, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    let asked = query(&uri);
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (start, end) = (moment(asked.get("start"), "start")?, moment(asked.get("end"), "end")?);
    if let (Some(start), Some(end)) = (start, end)
        && start > end
    {
        return Err(E2bError::bad("start: it is later than `end`"));
    }
    let is_wanted = start.is_none_or(|start| start <= seconds) && end.is_none_or(|end| end >= seconds);
    Ok(Json(if is_wanted { vec![point(&sandbox, now, seconds)] } else { Vec::new() }))
}

fn moment(text: Option<&String>, name: &str) -> Result<Option<u64>, E2bError> {
    let read = text.filter(|text| !text.is_empty()).map(|text| text.parse()).transpose();
    read.map_err(|_| E2bError::bad(format!("{name}: seconds since 1970")))
}

fn point(sandbox: &Sandbox, now: SystemTime, seconds: u64) -> Value {
    let measured = measure(sandbox);
    json!({
        "timestamp": rfc3339(now),
        "timestampUnix": seconds,
        "cpuCount": cpus(sandbox),
        "cpuUsedPct": measured.cpu_percent,
        "memUsed": measured.memory,
        "memTotal": measured.memory_total,
        "memCache": 0,
        "diskUsed": measured.disk,
        "diskTotal": measured.disk_total,
    })
}

/// Processors that it may use: those that were granted, or those of the host.
pub(super) fn cpus(sandbox: &Sandbox) -> u64 {
    let granted = sandbox.session.allowed.limits.get(LimitKey::Cpus).map(|milli| milli.div_ceil(1000));
    granted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)).max(1)
}

/// What a sandbox uses.
pub(crate) struct Measured {
    pub(crate) cpu_percent: f64,
    pub(crate) memory: u64,
    pub(crate) memory_total: u64,
    pub(crate) disk: u64,
    pub(crate) disk_total: u64,
}

pub(crate) fn measure(sandbox: &Sandbox) -> Measured {
    let (session, limit) = (&sandbox.session, |key| sandbox.session.allowed.limits.get(key).unwrap_or(0));
    let usage = session.usage();
    let disk = session.files().ok().and_then(|files| files.used_bytes().ok()).unwrap_or(0);
    let wall = usage.wall.as_secs_f64().max(0.001);
    Measured {
        cpu_percent: (usage.cpu.as_secs_f64() / wall * 100.0 * 100.0).round() / 100.0,
        memory: usage.memory_peak_bytes,
        memory_total: limit(LimitKey::Memory),
        disk,
        disk_total: limit(LimitKey::Disk),
    }
}
