//! Writes down what the broker tells, and keeps the first of it for the report.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_egress::packages::{PackageDecision, PackageEvent, PackageWitness};
use ringfence_egress::{Closed, EgressEvent, Opened, Refused, RequestLine, Unrecorded, Witness};
use ringfence_evidence::{Event, ExchangeRecord, PackageRecord};
use ringfence_store::JournalWriter;

use crate::report::{NetworkReport, PackageRefusalReport, RunReport};

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
    packages: Vec<PackageRecord>,
    refused_packages: Vec<PackageRefusalReport>,
    /// Where exchanges that are not over stand among them.
    open: BTreeMap<u64, usize>,
}

impl Recording {
    pub(crate) fn new(journal: JournalWriter) -> Self {
        Self { journal, seen: Mutex::default() }
    }

    /// What was decided goes into the report, in the order in which it was.
    pub(crate) fn tell_report(&self, report: &mut RunReport) {
        let seen = std::mem::take(&mut *self.seen());
        (report.network, report.packages, report.refused_packages) = (seen.reports, seen.packages, seen.refused_packages);
    }

    fn append(&self, event: Event) -> Result<(), Unrecorded> {
        self.journal.append(event).map_err(|error| Unrecorded(error.to_string()))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Recording {
    fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded> {
        let mut seen = self.seen(); // held, so that the report has the order of the record
        self.append(record(event.clone()))?;
        seen.note(&event);
        Ok(())
    }
}

impl PackageWitness for Recording {
    fn tell(&self, event: PackageEvent) -> Result<(), Unrecorded> {
        let PackageEvent { ecosystem, name, version, file, decision, sha256, source, is_from_cache, bytes } = event;
        let ecosystem = ecosystem.to_string();
        let mut seen = self.seen();
        match decision {
            PackageDecision::Served => {
                let sha256 = sha256.map(|digits| format!("sha256:{digits}")).unwrap_or_default();
                let source = source.unwrap_or_default();
                let package = PackageRecord { ecosystem, name, version, file, sha256, source, is_from_cache, bytes };
                self.append(Event::PackageServed { package: package.clone() })?;
                push(&mut seen.packages, &package);
            }
            PackageDecision::Refused { rule } => {
                let rule = rule.to_string();
                let report = PackageRefusalReport { ecosystem, name, version, file, rule };
                let PackageRefusalReport { ecosystem, name, version, file, rule } = report.clone();
                self.append(Event::PackageRefused { ecosystem, name, version, file, rule })?;
                push(&mut seen.refused_packages, &report);
            }
        }
        Ok(())
    }
}

fn push<T: Clone>(list: &mut Vec<T>, item: &T) {
    if list.len() < REPORTED {
        list.push(item.clone());
    }
}

fn first_line(request: RequestLine) -> String {
    format!("{} {}", request.method, request.path)
}

fn record(event: EgressEvent) -> Event {
    match event {
        EgressEvent::Opened(Opened { exchange, way, rule, host, port, address, seen, request, credential }) => Event::NetworkOpened {
            exchange: ExchangeRecord {
                number: exchange,
                way: way.to_string(),
                rule,
                host,
                port,
                address: address.ip().to_string(),
                seen: seen.to_string(),
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
