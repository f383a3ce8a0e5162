//! Shows long work on a terminal; in a pipe, or when told to be quiet, nothing of it. Warnings are shown anywhere but where a report has them.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringfence_control::Progress;

use super::out::complain;

/// Work that takes less is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// A line on standard error that is there only while it is needed.
pub(crate) struct Line {
    is_wanted: bool,
    has_warnings: bool,
    started_at: Instant,
    bar: Option<ProgressBar>,
}

impl Line {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_wanted: !is_quiet && std::io::stderr().is_terminal(), has_warnings: !is_quiet, started_at: Instant::now(), bar: None }
    }

    /// The same where a report is printed, in which warnings stand.
    pub(crate) fn beside_a_report(is_quiet: bool) -> Self {
        let mut line = Self::new(is_quiet);
        line.has_warnings = false;
        line
    }
}

impl Progress for Line {
    fn tell(&mut self, what: &str, done: u64) {
        if self.is_wanted && self.started_at.elapsed() > PATIENCE {
            let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
            bar.set_message(format!("{done} {what}"));
            bar.tick();
        }
    }

    fn warn(&mut self, text: &str) {
        if self.has_warnings {
            complain(&format!("ringfence: {}", super::out::harmless(text)));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
