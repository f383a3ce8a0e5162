//! Zip files. One reader goes by the directory at the end, another by the headers as they stream by: what they see must be the same.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};

use zip::ZipArchive;
use zip::read::ZipFile;

use super::{Fault, check, check_link, check_name, shown};
use crate::packages::limits::IndexLimits;

/// What may follow an entry's bytes: its sizes once more, for those who wrote it in one go.
const MOST_TRAILER: u64 = 24;

pub(super) fn inspect(file: &File, limits: &IndexLimits) -> Result<(), Fault> {
    let listed = listed_entries(file)?;
    let mut archive = ZipArchive::new(file).map_err(io::Error::from)?;
    check(archive.len() as u64 <= limits.archive_entries, || Fault::Many(limits.archive_entries))?;
    check(archive.len() as u64 == listed, || Fault::Twice)?;
    let (mut left, mut extents) = (limits.archive_bytes, Vec::new());
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(io::Error::from)?;
        extents.push(extent(&entry, file)?);
        check_kind(&mut entry)?;
        let read = io::copy(&mut entry.take(left + 1), &mut io::sink())?;
        left = left.checked_sub(read).ok_or(Fault::Large(limits.archive_bytes))?;
    }
    check_layout(extents, archive.central_directory_start())
}

fn check_kind(entry: &mut ZipFile<'_, &File>) -> Result<(), Fault> {
    let name = entry.name().to_owned();
    check_name(&name)?;
    match entry.unix_mode().unwrap_or_default() & 0o170_000 {
        0 | 0o100_000 | 0o040_000 => Ok(()),
        0o120_000 => {
            let mut target = String::new();
            entry.by_ref().take(4097).read_to_string(&mut target)?;
            check_link(&name, &target)
        }
        _ => Err(Fault::Special(shown(&name))),
    }
}

/// Where an entry begins and ends, once its own header is seen to name it as the directory does.
fn extent(entry: &ZipFile<'_, &File>, file: &File) -> Result<(u64, u64), Fault> {
    let mut header = vec![0; 30 + entry.name_raw().len()];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut header, entry.header_start())?;
    let length = usize::from(u16::from_le_bytes([header[26], header[27]]));
    let is_same = header.starts_with(b"PK\x03\x04") && length == entry.name_raw().len() && header[30..] == *entry.name_raw();
    let data_start = entry.data_start().filter(|_| is_same).ok_or(Fault::Directory)?;
    Ok((entry.header_start(), data_start + entry.compressed_size()))
}

/// Entries lie one after another from the first byte to the directory, so that nothing is between them that only one reader sees.
fn check_layout(mut extents: Vec<(u64, u64)>, directory: u64) -> Result<(), Fault> {
    extents.sort_unstable();
    let mut end = 0;
    let starts = extents.iter().map(|(start, _)| *start).chain([directory]);
    let ends = extents.iter().map(|(_, end)| *end);
    for (index, (start, next)) in starts.zip(ends.chain([directory])).enumerate() {
        let gap = start.checked_sub(end).ok_or(Fault::Directory)?;
        check(gap <= if index == 0 { 0 } else { MOST_TRAILER }, || Fault::Directory)?;
        end = next;
    }
    Ok(())
}

/// How many entries the directory at the end of a zip file says there are: a reader by name sees those of one name only once.
fn listed_entries(mut file: &File) -> Result<u64, Fault> {
    let size = file.seek(SeekFrom::End(0))?;
    let start = file.seek(SeekFrom::Start(size.saturating_sub(65_557 + 20)))?;
    let mut tail = Vec::new();
    file.take(size - start).read_to_end(&mut tail)?;
    let bad = || Fault::Unreadable(io::Error::other("it has no directory"));
    let end = tail.windows(4).rposition(|bytes| bytes == b"PK\x05\x06").ok_or_else(bad)?;
    let count = tail.get(end + 10..end + 12).map(|bytes| u64::from(u16::from_le_bytes([bytes[0], bytes[1]]))).ok_or_else(bad)?;
    if count < 0xffff {
        return Ok(count);
    }
    let locator = end.checked_sub(20).and_then(|at| tail.get(at..end)).filter(|bytes| bytes.starts_with(b"PK\x06\x07")).ok_or_else(bad)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| bad());
    file.seek(SeekFrom::Start(number(&locator[8..16])?))?;
    let mut record = [0; 40];
    file.read_exact(&mut record)?;
    number(&record[32..40])
}
