//! Two lines, each taken for everything that names something: a glob and a path, destinations, variables, limits, scopes. What is read prints as
//! itself, a meet is within both sides, and a glob matches what a plainer matcher says.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use ringfence_isolation::OsText;
use ringfence_policy::{
    Destination, Element, EnvName, Glob, HostName, ImageName, Limits, NamePattern, PathScope, ProfileName, WorkspacePath,
};

/// The plain matcher takes exponential time: it is asked about short texts with few stars.
fn is_easy(glob: &str, path: &[u8]) -> bool {
    glob.len() <= 24 && path.len() <= 24 && glob.matches('*').count() <= 5
}

fuzz_target!(|bytes: &[u8]| {
    let (first, second) = bytes.split_at(bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len()));
    let second = second.strip_prefix(b"\n").unwrap_or(second);
    kept(first);
    let Ok(text) = std::str::from_utf8(first) else { return };
    read_all(text);
    if let Ok(glob) = text.parse::<Glob>() {
        matched(&glob, second);
    }
    if let Ok(second) = std::str::from_utf8(second) {
        meet::<Destination>(text, second);
        meet::<ImageName>(text, second);
        meet::<NamePattern>(text, second);
        meet::<PathScope>(text, second);
    }
});

/// No byte of a name is lost on its way through a record.
fn kept(bytes: &[u8]) {
    let record = serde_json::to_string(&OsText::from(bytes)).unwrap();
    assert_eq!(serde_json::from_str::<OsText>(&record).unwrap().as_bytes(), bytes);
}

fn read_all(text: &str) {
    read::<Glob>(text);
    read::<Destination>(text);
    read::<HostName>(text);
    read::<NamePattern>(text);
    read::<PathScope>(text);
    read::<EnvName>(text);
    read::<ImageName>(text);
    read::<ProfileName>(text);
    if let Some(path) = read::<WorkspacePath>(text) {
        assert!(!path.as_str().starts_with('/') && !path.as_str().split('/').any(|part| part == ".."));
    }
    let mut limits = Limits::default();
    if limits.parse_and_set(text).is_ok() {
        limits.iter().for_each(|(key, value)| assert!(value >= key.least() && !key.show(value).is_empty()));
    }
}

/// What is read, prints, and is read again is the same.
fn read<T: FromStr + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    let read = text.parse::<T>().ok()?;
    let again = read.to_string().parse::<T>();
    assert_eq!(again.as_ref().ok(), Some(&read), "{text:?} prints as {read}");
    Some(read)
}

fn matched(glob: &Glob, path: &[u8]) {
    let is_match = glob.matches(path);
    if is_easy(glob.as_str(), path) {
        let parts = |text: &[u8]| text.split(|b| *b == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(is_match, plainly(&parts(glob.as_str().as_bytes()), &parts(path)), "{glob} on {path:?}");
    }
    let exactly = std::str::from_utf8(path).ok().and_then(|path| PathScope::exactly(path).ok());
    if let (true, Some(exactly)) = (is_match, exactly) {
        assert!(glob.scope().covers(&exactly), "{glob} matches {exactly}, which is outside its scope {}", glob.scope());
    }
}

fn plainly(pattern: &[Vec<u8>], parts: &[Vec<u8>]) -> bool {
    match (pattern.split_first(), parts.split_first()) {
        (None, first) => first.is_none(),
        (Some((star, rest)), _) if star == b"**" => (0..=parts.len()).any(|skipped| plainly(rest, &parts[skipped..])),
        (Some(_), None) => false,
        (Some((one, rest)), Some((part, others))) => part_plainly(one, part) && plainly(rest, others),
    }
}

fn part_plainly(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, first) => first.is_none(),
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| part_plainly(rest, &name[skipped..])),
        (Some(_), None) => false,
        (Some((one, rest)), Some((byte, others))) => (*one == b'?' || one == byte) && part_plainly(rest, others),
    }
}

fn meet<T: Element + FromStr + Debug>(one: &str, other: &str) {
    let (Ok(one), Ok(other)) = (one.parse::<T>(), other.parse::<T>()) else { return };
    assert_eq!(one.meet(&one).as_ref(), Some(&one));
    let met = one.meet(&other);
    assert_eq!(met, other.meet(&one), "a meet depends on the order of its sides");
    if let Some(met) = met {
        assert!(one.covers(&met) && other.covers(&met), "{one:?} and {other:?} meet outside both: {met:?}");
    }
}
