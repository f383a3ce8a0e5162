//! Printing: results on standard output, messages on standard error, and nothing lost when either is closed.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Refused, or could not be set up.
pub(crate) const REFUSED: u8 = 125;

/// Why a command did not do what was asked, and what would help.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: String,
    status: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Display, hint: impl Into<String>) -> Self {
        Self { message: message.to_string(), hint: hint.into(), status: REFUSED }
    }

    pub(crate) fn hinted(error: &dyn std::error::Error, hint: String) -> Self {
        Self::new(error, hint)
    }

    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn print(self) -> ExitCode {
        complain(&format!("ringfence: {}", harmless_lines(&self.message)));
        if !self.hint.is_empty() {
            complain(&format!("hint: {}", harmless_lines(&self.hint)));
        }
        ExitCode::from(self.status)
    }
}

/// A word of the command line as what it stands for. (Types of ours show what a terminal would obey; clap prints a bad value as it is.)
pub(crate) fn parsed<T: std::str::FromStr>(text: &str, hint: &str) -> Result<T, Failure>
where
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| Failure::new(error, hint))
}

/// Help and version are results; anything else is a wrong call.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let is_result = !error.use_stderr();
    // Whoever closed the stream does not want to read it.
    error.print().unwrap_or_default();
    ExitCode::from(if is_result { 0 } else { REFUSED })
}

/// Prints a result. A reader that has gone away is not an error; a full disk is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same for what a program has printed, byte for byte.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("writing to standard output: {e}"), "make room for it"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(e, ""))?;
    print(&format!("{}\n", plain_json(&text)))
}

/// JSON in which characters that a terminal or a reader obeys stand as `\uXXXX`: they can only be inside of strings.
fn plain_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c != '\n' && !c.is_ascii_graphic() && c != ' ' && harmless(&c.to_string()) != c.to_string() {
            true => out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
}

/// Prints a message on standard error; when that is closed there is nobody to tell.
pub(crate) fn complain(line: &str) {
    let mut stderr = io::stderr().lock();
    stderr.write_all(line.as_bytes()).and_then(|()| stderr.write_all(b"\n")).unwrap_or_default();
}

/// A table for people, in which nothing steers a terminal.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(header.to_vec());
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_width(width);
    }
    table.add_rows(rows.into_iter().map(|row| row.iter().map(|cell| harmless_lines(cell)).collect::<Vec<_>>()));
    format!("{table}\n")
}

/// Columns of the terminal, if there is one; a pipe takes lines as long as they are.
fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    rustix::termios::tcgetwinsize(&stdout).ok().map(|size| size.ws_col).filter(|columns| *columns >= 40)
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// The same for text of several lines of ours, in which a stranger's words may stand. Tabs stay: they steer nothing.
pub(crate) fn harmless_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(harmless).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Text from a stranger, for a terminal: control characters and characters that turn the direction are shown, not obeyed.
pub(crate) fn harmless(text: &str) -> String {
    ringfence_isolation::OsText::from(text).to_string()
}
