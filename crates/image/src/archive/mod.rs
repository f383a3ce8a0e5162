//! Reads a tar as a stranger may have written it: one entry at a time, in bounded memory, and strictly. Headers are taken apart by the `tar` crate; how
//! they follow each other is decided here, since names and lists of any length would otherwise be read into memory.

mod entry;
mod extension;
mod sparse;

use std::io::{self, Read};

use tar::Header;

pub(crate) use entry::{Entry, EntryPath, Kind, joined};
use extension::Extension;
use sparse::Part;

use crate::caps::Budget;
use crate::error::ImageError;

const BLOCK: u64 = 512;

/// A tar that is being read.
pub(crate) struct Archive<R> {
    reader: R,
    /// Bytes of the current entry that were not read yet, and what fills up its last block.
    unread: u64,
    filling: u64,
    /// Parts of the current file that are no holes.
    parts: Vec<Part>,
}

impl<R: Read> Archive<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, unread: 0, filling: 0, parts: Vec::new() }
    }

    /// The next entry, or `None` after the end mark.
    pub(crate) fn next(&mut self, budget: &mut Budget) -> Result<Option<Entry>, ImageError> {
        let mut extension = Extension::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else {
                return if extension.is_empty() { Ok(None) } else { Err(damaged("it ends before an entry that was announced")) };
            };
            let kind = header.entry_type().as_byte();
            let stored = extension.size.map_or_else(|| header.entry_size().map_err(damaged), Ok)?;
            self.expect(stored)?;
            match kind {
                b'L' | b'K' | b'x' | b'g' => self.extend(kind, &mut extension, budget)?,
                _ => return self.entry(&header, &extension, stored, budget).map(Some),
            }
        }
    }

    /// The bytes of the current file that are no holes, with their place in it, a piece at a time.
    pub(crate) fn pieces(&mut self, mut each: impl FnMut(u64, &[u8]) -> Result<(), ImageError>) -> Result<(), ImageError> {
        let mut piece = vec![0; 64 << 10];
        for part in std::mem::take(&mut self.parts) {
            let mut done = 0;
            while done < part.bytes {
                let length = piece.len().min(usize::try_from(part.bytes - done).unwrap_or(usize::MAX));
                self.fill(&mut piece[..length])?;
                self.unread -= length as u64;
                each(part.offset + done, &piece[..length])?;
                done += length as u64;
            }
        }
        Ok(())
    }

    /// The reader, to see what comes after the end mark.
    pub(crate) fn into_inner(self) -> R {
        self.reader
    }

    fn entry(&mut self, header: &Header, extension: &Extension, stored: u64, budget: &mut Budget) -> Result<Entry, ImageError> {
        budget.entry()?;
        let mut entry = Entry::of(header, extension, stored, &budget.caps)?;
        self.parts = vec![Part { offset: 0, bytes: stored }];
        if let Kind::File { bytes, .. } = &mut entry.kind {
            if header.entry_type().is_gnu_sparse() {
                (self.parts, *bytes) = sparse::parts(header, stored, |block| fill(&mut self.reader, block))?;
            }
            budget.file(*bytes)?;
        }
        Ok(entry)
    }

    /// Reads what is said about the next entry.
    fn extend(&mut self, kind: u8, extension: &mut Extension, budget: &Budget) -> Result<(), ImageError> {
        extension.announce(kind)?;
        if self.unread > budget.caps.document.min(1 << 20) {
            return Err(damaged("an extended header is longer than any name"));
        }
        let mut said = vec![0; self.unread as usize];
        self.fill(&mut said)?;
        self.unread = 0;
        let name = || said.strip_suffix(b"\0").unwrap_or(&said).to_vec();
        match kind {
            b'L' => extension.path = Some(name()),
            b'K' => extension.link = Some(name()),
            b'x' => extension.read_records(&said)?,
            _ => {
                let mut global = Extension::default();
                global.read_records(&said)?;
                if !global.says_nothing_of_entries() {
                    return Err(damaged("a header names the paths or sizes of all entries at once"));
                }
            }
        }
        Ok(())
    }

    fn expect(&mut self, bytes: u64) -> Result<(), ImageError> {
        let blocks = bytes.checked_next_multiple_of(BLOCK).ok_or_else(|| damaged("an entry has an impossible size"))?;
        (self.unread, self.filling) = (bytes, blocks - bytes);
        Ok(())
    }

    /// Passes over what nobody wanted of the current entry.
    fn skip(&mut self) -> Result<(), ImageError> {
        let length = self.unread.checked_add(self.filling).ok_or_else(|| damaged("an entry has an impossible size"))?;
        let passed = io::copy(&mut self.reader.by_ref().take(length), &mut io::sink()).map_err(unreadable)?;
        (self.unread, self.filling) = (0, 0);
        self.parts.clear();
        if passed == length { Ok(()) } else { Err(damaged("it ends in the middle of an entry")) }
    }

    /// The next header, or `None` at the end mark. An archive that just stops was cut off.
    fn header(&mut self) -> Result<Option<Header>, ImageError> {
        let mut header = Header::new_old();
        self.fill(header.as_mut_bytes())?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let bytes = header.as_bytes();
        let sum: u32 = bytes[..148].iter().chain(&bytes[156..]).map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
        match header.cksum() {
            Ok(expected) if expected == sum => Ok(Some(header)),
            Ok(_) | Err(_) => Err(damaged("the sum of a header is wrong; is it a tar?")),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ImageError> {
        fill(&mut self.reader, buffer)
    }
}

fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<(), ImageError> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
        _ => unreadable(error),
    })
}

fn damaged(cause: impl ToString) -> ImageError {
    ImageError::damaged("the archive", cause)
}

/// Whatever a decompressor says is about the archive; only the cap has a meaning of its own.
fn unreadable(error: io::Error) -> ImageError {
    crate::measured::as_cap(&error).unwrap_or_else(|| damaged(error))
}
