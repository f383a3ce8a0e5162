//! Why two outputs differ, by what differs in them: words that are times, or numbers that nothing foretells. A judgement, and said as one.

use schemars::JsonSchema;
use serde::Serialize;

/// Why something is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The time, or how long something took, is in it.
    Time,
    /// It differs by itself, each time.
    Randomness,
    /// What surrounds the run is not as it was.
    Environment,
    /// It cannot be told.
    Unexplained,
}

impl Cause {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Randomness => "randomness",
            Self::Environment => "environment",
            Self::Unexplained => "unexplained",
        }
    }
}

/// What is shown of a difference.
const SHOWN: usize = 60;

/// Why two repetitions differ from each other: by time or by chance.
pub(super) fn between(first: &[u8], second: &[u8]) -> (Cause, String) {
    let pairs = differing(first, second);
    if pairs.is_empty() {
        return (Cause::Randomness, "it differs each time; what was printed was not kept to its end".to_owned());
    }
    let shown = shown(&pairs);
    match pairs.iter().all(|pair| is_time(&pair.first) && is_time(&pair.second)) {
        true => (Cause::Time, format!("it differs each time, in what reads as a time: {shown}")),
        false => (Cause::Randomness, format!("it differs each time: {shown}")),
    }
}

/// Why two repetitions agree with each other and not with what was, although nothing around them changed.
pub(super) fn since(then: &[u8], now: &[u8]) -> (Cause, String) {
    let pairs = differing(then, now);
    let told = || "it is the same each time now, and nothing that is on record of what surrounds it changed".to_owned();
    match pairs.is_empty() || !pairs.iter().all(|pair| is_time(&pair.first) && is_time(&pair.second)) {
        true if has_date(now) => (Cause::Time, format!("{}; a date is in it", told())),
        true => (Cause::Unexplained, told()),
        false => (Cause::Time, format!("it differs in what reads as a time: {}", shown(&pairs))),
    }
}

/// A word of one side that stands where the other has another.
struct Pair {
    line: usize,
    first: String,
    second: String,
}

/// The words that differ, line by line; what is not text differs as a whole.
fn differing(first: &[u8], second: &[u8]) -> Vec<Pair> {
    const MOST: usize = 1000;
    let (Ok(first), Ok(second)) = (std::str::from_utf8(first), std::str::from_utf8(second)) else {
        let at = first.iter().zip(second).position(|(a, b)| a != b).unwrap_or(first.len().min(second.len()));
        return vec![Pair { line: 0, first: format!("byte {at}"), second: "another".into() }];
    };
    let lines = first.lines().zip(second.lines()).enumerate();
    let mut pairs: Vec<Pair> = lines.filter(|(_, (a, b))| a != b).flat_map(|(at, (a, b))| words(at + 1, a, b)).take(MOST).collect();
    if first.lines().count() != second.lines().count() {
        pairs.push(Pair {
            line: 0,
            first: format!("{} lines", first.lines().count()),
            second: format!("{} lines", second.lines().count()),
        });
    }
    pairs
}

fn words(line: usize, first: &str, second: &str) -> Vec<Pair> {
    let split = |text: &str| text.split(|c: char| c.is_whitespace() || "\"'(),;[]{}<>=".contains(c)).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (split(first), split(second));
    match a.len() == b.len() {
        true => a.into_iter().zip(b).filter(|(a, b)| a != b).map(|(first, second)| Pair { line, first, second }).collect(),
        false => vec![Pair { line, first: first.to_owned(), second: second.to_owned() }],
    }
}

/// A clock time, a date, seconds since 1970 of these years, or a short span.
fn is_time(word: &str) -> bool {
    is_clock(word) || is_span(word) || is_epoch(word)
}

/// `2026-11-29`, `23:45:00`, with or without what follows them in RFC 3339.
fn is_clock(word: &str) -> bool {
    let parts: Vec<&str> = word.trim_end_matches('Z').split(['-', ':', '.', '+', 'T', '/']).collect();
    let are_numbers = parts.iter().all(|part| !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit()));
    are_numbers && parts.len() >= 3 && word.contains(['-', ':', '/'])
}

/// `1764459900`, with or without a fraction, in seconds, milliseconds, microseconds or nanoseconds.
fn is_epoch(word: &str) -> bool {
    let whole = word.split('.').next().unwrap_or_default();
    let is_number = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number && [10, 13, 16, 19].contains(&whole.len()) && (whole.starts_with("17") || whole.starts_with("18") || whole.starts_with("19"))
}

/// `0.123`, `12ms`, `3.4s`.
fn is_span(word: &str) -> bool {
    let number = ["ms", "us", "ns", "s"].iter().find_map(|unit| word.strip_suffix(unit));
    let (text, has_unit) = (number.unwrap_or(word), number.is_some());
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number && has_unit
}

fn has_date(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.split(|c: char| c.is_whitespace() || "\"'(),;".contains(c)).any(|word| is_clock(word) || is_epoch(word))
}

fn shown(pairs: &[Pair]) -> String {
    let cut = |text: &str| text.chars().take(SHOWN).collect::<String>();
    let one = |pair: &Pair| {
        let place = if pair.line > 0 { format!("line {}: ", pair.line) } else { String::new() };
        format!("{place}`{}` and `{}`", cut(&pair.first), cut(&pair.second))
    };
    let more = if pairs.len() > 3 { format!("; and {} more", pairs.len() - 3) } else { String::new() };
    format!("{}{more}", pairs.iter().take(3).map(one).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_chance() {
        let cases = [
            ("at 2026-11-29T23:45:00.123Z done", "at 2026-11-29T23:45:01.456Z done", Cause::Time),
            ("took 0.12s", "took 0.13s", Cause::Time),
            ("1764459900.25", "1764459901.75", Cause::Time),
            ("Sun 23:45:00 x", "Sun 23:45:01 x", Cause::Time),
            ("id 8f14e45f", "id c9f0f895", Cause::Randomness),
            ("pick 17", "pick 4", Cause::Randomness),
            ("a\nb", "a\nb\nc", Cause::Randomness),
            ("2026-11-29 8f14e45f", "2026-11-30 c9f0f895", Cause::Randomness),
        ];
        for (first, second, cause) in cases {
            assert_eq!(between(first.as_bytes(), second.as_bytes()).0, cause, "{first}");
        }
        assert_eq!(since(b"made on 2026-11-28", b"made on 2026-11-29").0, Cause::Time);
        assert_eq!(since(b"", b"made on 2026-11-29").0, Cause::Time);
        assert_eq!(since(b"1", b"2").0, Cause::Unexplained);
        assert_eq!(between(b"\xff1", b"\xff2").0, Cause::Randomness);
    }
}
