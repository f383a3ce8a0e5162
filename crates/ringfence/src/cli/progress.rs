//! Shows long work on a terminal; in a pipe, or when told to be quiet, nothing of it.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringfence_control::Progress;

/// Work that takes less is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// A line on standard error that is there only while it is needed.
pub(crate) struct Line {
    is_wanted: bool,
    started_at: Instant,
    bar: Option<ProgressBar>,
}

impl Line {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_wanted: !is_quiet && std::io::stderr().is_terminal(), started_at: Instant::now(), bar: None }
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
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
