//! Counters for the operator, in the text format of Prometheus. Every label has one of a few values that are ours, never a client's.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counters: name, what it counts, and the name of its label.
const COUNTERS: &[(&str, &str, &str)] = &[
    ("requests", "Requests by the status of their response.", "status"),
    ("problems", "Problems by their code.", "code"),
    ("wrong_keys", "Keys that opened nothing.", ""),
    ("connections_refused", "Connections that were one too many.", ""),
    ("runs", "Runs that are over, by how they ended.", "end"),
];

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counted: Mutex<BTreeMap<(&'static str, String), u64>>,
    connections: Arc<AtomicI64>,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<AtomicI64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// One more of a counter of ours.
    pub(crate) fn count(&self, counter: &'static str, label: &str) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.entry((counter, label.to_owned())).or_default() += 1;
    }

    /// One more connection.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.connections.clone())
    }

    /// All of it as text, with how much work is under way.
    pub(crate) fn text(&self, under_way: usize) -> String {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for (counter, help, label) in COUNTERS {
            let lines = counted.iter().filter(|((name, _), _)| name == counter);
            let lines: String = lines.map(|((_, value), count)| line(counter, label, value, *count)).collect();
            let lines = if lines.is_empty() && label.is_empty() { line(counter, "", "", 0) } else { lines };
            write!(text, "# HELP ringfence_{counter}_total {help}\n# TYPE ringfence_{counter}_total counter\n{lines}").unwrap_or_default();
        }
        let open = self.connections.load(Ordering::Relaxed);
        for (name, help, value) in [
            ("connections", "Open connections.", open),
            ("work", "Runs, audits and promotions under way.", i64::try_from(under_way).unwrap_or(0)),
        ] {
            write!(text, "# HELP ringfence_{name} {help}\n# TYPE ringfence_{name} gauge\nringfence_{name} {value}\n").unwrap_or_default();
        }
        text
    }
}

fn line(counter: &str, label: &str, value: &str, count: u64) -> String {
    let labels = if label.is_empty() { String::new() } else { format!("{{{label}=\"{value}\"}}") };
    format!("ringfence_{counter}_total{labels} {count}\n")
}
