//! Writes down what the broker tells, and keeps the first of it for the report.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_egress::{Closed, EgressEvent, Opened, Refused, RequestLine, Unrecorded, Witness};
use ringfence_evidence::{Event, ExchangeRecord};
use ringfence_store::JournalWriter;

use crate::report::NetworkReport;

/// Decisions in a report; the record has all.
const REPORTED: usize = 1000;

/// The witness of one run.
#[derive(Debug)]
pub(crate) struct Recording {
    journal: JournalWriter,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    reports: Vec<NetworkReport>,
    /// Where exchanges that are not over stand among them.
    open: BTreeMap<u64, usize>,
}

impl Recording {
    pub(crate) fn new(journal: JournalWriter) -> Self {
        Self { journal, seen: Mutex::default() }
    }

    /// What was decided, in the order in which it was.
    pub(crate) fn take_reports(&self) -> Vec<NetworkReport> {
        std::mem::take(&mut *self.seen()).reports
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Recording {
    fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded> {
        self.seen().note(&event);
        self.journal.append(record(event)).map_err(|error| Unrecorded(error.to_string()))
    }
}

fn first_line(request: RequestLine) -> String {
    format!("{} {}", request.method, request.path)
}

fn record(event: EgressEvent) -> Event {
    match event {
        EgressEvent::Opened(Opened { exchange, way, rule, host, port, address, request, credential }) => Event::NetworkOpened {
            exchange: ExchangeRecord {
                number: exchange,
                way: way.to_string(),
                rule,
                host,
                port,
                address: address.ip().to_string(),
                request: request.map(first_line),
                credential,
            },
        },
        EgressEvent::Closed(Closed { exchange, up_bytes, down_bytes, ms, address, status, cause }) => Event::NetworkClosed {
            exchange,
            up_bytes,
            down_bytes,
            ms,
            address: address.map(|address| address.ip().to_string()),
            status,
            cause,
        },
        EgressEvent::Refused(Refused { way, host, port, reason, request }) => {
            Event::NetworkRefused { way: way.to_string(), host, port, reason, request: request.map(first_line) }
        }
    }
}

impl Seen {
    fn note(&mut self, event: &EgressEvent) {
        match event {
            EgressEvent::Opened(opened) if self.reports.len() < REPORTED => {
                self.open.insert(opened.exchange, self.reports.len());
                self.reports.push(NetworkReport::allowed(opened));
            }
            EgressEvent::Refused(refused) if self.reports.len() < REPORTED => self.reports.push(NetworkReport::refused(refused)),
            EgressEvent::Opened(_) | EgressEvent::Refused(_) => {}
            EgressEvent::Closed(closed) => {
                if let Some(report) = self.open.remove(&closed.exchange).and_then(|at| self.reports.get_mut(at)) {
                    report.close(closed);
                }
            }
        }
    }
}
