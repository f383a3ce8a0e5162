//! Files with holes in the old form of GNU tar: a list of the parts that are no holes, in the header and in blocks after it.

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use crate::error::ImageError;

/// A part of a file that stands in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Parts of one file; more are a way to use up memory.
const MOST_PARTS: usize = 1 << 16;

fn damaged(cause: impl ToString) -> ImageError {
    ImageError::damaged("the archive", cause)
}

/// Reads the list of a header; `next` hands out the blocks after it. Answers with the whole size as well.
pub(super) fn parts(
    header: &Header,
    stored: u64,
    mut next: impl FnMut(&mut [u8]) -> Result<(), ImageError>,
) -> Result<(Vec<Part>, u64), ImageError> {
    let gnu = header.as_gnu().ok_or_else(|| damaged("a file with holes has no header of GNU tar"))?;
    let mut parts = Vec::new();
    add(&mut parts, &gnu.sparse)?;
    let mut has_more = gnu.is_extended();
    while has_more {
        let mut block = GnuExtSparseHeader::new();
        next(block.as_mut_bytes())?;
        add(&mut parts, &block.sparse)?;
        has_more = block.is_extended();
    }
    let whole = gnu.real_size().map_err(damaged)?;
    match is_sound(&parts, stored, whole) {
        true => Ok((parts, whole)),
        false => Err(damaged("the parts of a file with holes do not fit together")),
    }
}

fn add(parts: &mut Vec<Part>, listed: &[GnuSparseHeader]) -> Result<(), ImageError> {
    for part in listed.iter().filter(|part| !part.is_empty()) {
        parts.push(Part { offset: part.offset().map_err(damaged)?, bytes: part.length().map_err(damaged)? });
    }
    match parts.len() > MOST_PARTS {
        true => Err(damaged("a file with holes has too many parts")),
        false => Ok(()),
    }
}

/// In order, apart, within the file, and together as long as what is stored.
fn is_sound(parts: &[Part], stored: u64, whole: u64) -> bool {
    let end = parts.iter().try_fold(0u64, |end, part| (part.offset >= end).then(|| part.offset.checked_add(part.bytes)).flatten());
    let sum = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.bytes));
    end.is_some_and(|end| end <= whole) && sum == Some(stored)
}
