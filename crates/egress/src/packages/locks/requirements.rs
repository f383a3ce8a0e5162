//! `requirements.txt` with hashes, as pip reads it: lines that go on after a backslash, comments, extras, markers and options.

use ringfence_policy::Ecosystem;

use super::{Lock, LockError, Pinned};
use crate::packages::digest::{Algorithm, FileHash};
use crate::packages::pins::Pins;

const HASH_FIX: &str = "lock with hashes: `pip-compile --generate-hashes` or `uv pip compile --generate-hashes`";

/// Options that change nothing about where files are from.
const HARMLESS: [&str; 5] = ["--require-hashes", "--only-binary", "--no-binary", "--prefer-binary", "--pre"];

pub(super) fn parse(lock: &Lock<'_>) -> Result<Pins, LockError> {
    let mut pins = Pins::default();
    for (byte, line) in logical_lines(lock.text) {
        match line.starts_with('-') {
            true => check_option(lock, byte, &line)?,
            false => requirement(lock, &mut pins, byte, &line)?,
        }
    }
    Ok(pins)
}

/// Lines joined where a backslash ends one, without comments, each with the place of its start.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut open, mut byte) = (Vec::new(), None::<(usize, String)>, 0);
    for physical in text.split_inclusive('\n') {
        let line = physical.trim_end_matches(['\n', '\r']);
        let (part, goes_on) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        let (start, mut whole) = open.take().unwrap_or((byte, String::new()));
        whole.push_str(without_comment(part));
        byte += physical.len();
        match goes_on {
            true => open = Some((start, whole + " ")),
            false => lines.push((start, whole.trim().to_owned())),
        }
    }
    lines.extend(open.map(|(start, line)| (start, line.trim().to_owned())));
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

fn without_comment(line: &str) -> &str {
    let is_comment = |at: usize| at == 0 || line[..at].ends_with(char::is_whitespace);
    line.match_indices('#').find(|(at, _)| is_comment(*at)).map_or(line, |(at, _)| &line[..at])
}

fn check_option(lock: &Lock<'_>, byte: usize, line: &str) -> Result<(), LockError> {
    let option = line.split(['=', ' ']).next().unwrap_or(line);
    match HARMLESS.contains(&option) {
        true => Ok(()),
        false => {
            let cause = format!("option `{option}` names another source of packages");
            Err(lock.at_byte(byte, cause, "remove the line: a lock is one file, and the index is the operator's"))
        }
    }
}

fn requirement(lock: &Lock<'_>, pins: &mut Pins, byte: usize, line: &str) -> Result<(), LockError> {
    let (requirement, options) = line.split_once(" --").map_or((line, String::new()), |(head, tail)| (head, format!("--{tail}")));
    let pinned = requirement.split(';').next().unwrap_or_default().trim();
    let unpinned = |cause: String| lock.at_byte(byte, cause, "pin it: NAME==VERSION --hash=sha256:DIGITS");
    if pinned.contains('@') || pinned.contains('/') {
        return Err(lock.at_byte(byte, format!("`{}` is not from the index", without_credentials(pinned)), "name a package of the index"));
    }
    let (name, version) = pinned.split_once("==").ok_or_else(|| unpinned(format!("`{pinned}` has no `==`")))?;
    if version.starts_with('=') || version.contains([',', '*']) || name.contains(['<', '>', '=', '!', '~']) {
        return Err(unpinned(format!("`{pinned}` is more than one version")));
    }
    let name = name.split('[').next().unwrap_or(name).trim();
    let hashes = hashes(lock, byte, &options)?;
    lock.pin(pins, Ecosystem::Python, byte, Pinned { name, version: version.trim(), hashes, fix: HASH_FIX })
}

fn without_credentials(text: &str) -> &str {
    text.split(['@', '/']).next().unwrap_or_default().trim()
}

fn hashes(lock: &Lock<'_>, byte: usize, options: &str) -> Result<Vec<FileHash>, LockError> {
    let mut hashes = Vec::new();
    for option in options.split_ascii_whitespace() {
        let text = option.strip_prefix("--hash=");
        let text = text.ok_or_else(|| lock.at_byte(byte, format!("option `{option}` is not one of a pin"), "remove it"))?;
        let strong = FileHash::from_prefixed(text).filter(|hash| hash.algorithm() != Algorithm::Sha1);
        hashes.push(strong.ok_or_else(|| lock.at_byte(byte, format!("`{text}` is not a sha256 or sha512 hash"), HASH_FIX))?);
    }
    Ok(hashes)
}
