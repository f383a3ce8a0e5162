//! The content of binary files: the block that makes the new content, and the one that makes the old, which is held against the base.

use super::error::{Fault, PatchError};
use super::header::Header;
use super::lines::Lines;
use crate::binary::{Delta, decode_line, unpack};
use crate::ids::{LONG_ID, SHORT_ID};
use crate::limits::Budget;
use crate::patch::{Block, Content, Ids};
use crate::visible::shown;

/// Everything after `GIT binary patch`.
pub(super) fn both(header: &Header, lines: &mut Lines<'_>, budget: &mut Budget) -> Result<Content, PatchError> {
    if !header.ids().is_some_and(are_full) {
        return Err(lines.fault(Fault::ShortIds));
    }
    lines.next();
    let forward = block(lines, budget)?;
    let is_block = |line: &[u8]| line.starts_with(b"literal ") || line.starts_with(b"delta ");
    let reverse = lines.peek().is_some_and(is_block).then(|| block(lines, budget)).transpose()?;
    Ok(Content::Binary { forward, reverse })
}

fn are_full(ids: &Ids) -> bool {
    ids.old.len() == ids.new.len() && [SHORT_ID, LONG_ID].contains(&ids.old.len())
}

/// `literal LENGTH` or `delta LENGTH`, lines of digits, and an empty line.
fn block(lines: &mut Lines<'_>, budget: &mut Budget) -> Result<Block, PatchError> {
    let first = lines.peek().unwrap_or_default();
    let (is_delta, length) = start(first).ok_or_else(|| lines.fault(Fault::BlockHeader(shown(first))))?;
    budget.take(length).map_err(|fault| lines.fault(fault))?;
    let line = lines.number();
    let at_start = |fault| PatchError { line, fault };
    lines.next();
    let bytes = unpack(&packed(lines)?, length).map_err(|fault| at_start(fault.into()))?;
    if !is_delta {
        return Ok(Block::Literal(bytes));
    }
    let delta = Delta::parse(&bytes).map_err(|fault| at_start(fault.into()))?;
    budget.take(delta.makes()).map_err(|fault| at_start(fault.into()))?;
    Ok(Block::Delta(delta))
}

fn start(line: &[u8]) -> Option<(bool, usize)> {
    let (is_delta, digits) = match line.strip_prefix(b"delta ") {
        Some(digits) => (true, digits),
        None => (false, line.strip_prefix(b"literal ")?),
    };
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let value = digits.iter().fold(0usize, |value, digit| value.wrapping_mul(10).wrapping_add(usize::from(digit.wrapping_sub(b'0'))));
    is_number.then_some((is_delta, value))
}

/// The bytes of all lines up to the empty one. They are fewer than the patch has.
fn packed(lines: &mut Lines<'_>) -> Result<Vec<u8>, PatchError> {
    let mut out = Vec::new();
    loop {
        match lines.peek() {
            None => return Err(lines.fault(Fault::BlockOpen)),
            Some([]) => {
                lines.next();
                return Ok(out);
            }
            Some(line) => decode_line(line, &mut out).map_err(|fault| lines.fault(fault))?,
        }
        lines.next();
    }
}
