//! What an archive says about the entry that follows: names too long for a header, and sizes.

use crate::error::ImageError;

/// Said before an entry.
#[derive(Debug, Default)]
pub(super) struct Extension {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) modified_at: Option<u64>,
    /// Kinds of the headers so far: none may come twice.
    seen: Vec<u8>,
}

impl Extension {
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Two of a kind would be read differently by different programs, and many would be a way to send for ever.
    pub(super) fn announce(&mut self, kind: u8) -> Result<(), ImageError> {
        match self.seen.contains(&kind) {
            true => Err(ImageError::damaged("the archive", format!("two headers `{}` before one entry", char::from(kind)))),
            false => {
                self.seen.push(kind);
                Ok(())
            }
        }
    }

    /// Reads records of the form `LENGTH KEY=VALUE\n`.
    pub(super) fn read_records(&mut self, records: &[u8]) -> Result<(), ImageError> {
        let mut rest = records;
        while !rest.is_empty() {
            let (key, value, after) = record(rest).ok_or_else(|| ImageError::damaged("the archive", "an extended header does not read"))?;
            self.take(key, value)?;
            rest = after;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ImageError> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(number(value).ok_or_else(|| ImageError::damaged("the archive", "a size is not a number"))?),
            b"mtime" => self.modified_at = value.split(|b| *b == b'.').next().and_then(number),
            _ if key.starts_with(b"GNU.sparse.") => {
                return Err(ImageError::damaged("the archive", "files with holes in the pax form are not read; use `tar --format=gnu`"));
            }
            // Owners, attributes and comments have no place in an image.
            _ => {}
        }
        Ok(())
    }

    /// What would hold for every entry after it is only ever a comment.
    pub(super) fn says_nothing_of_entries(&self) -> bool {
        self.path.is_none() && self.link.is_none() && self.size.is_none()
    }
}

fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|b| *b == b' ')?;
    let length = usize::try_from(number(&bytes[..space])?).ok()?;
    let (record, after) = (bytes.get(space + 1..length)?, &bytes[length..]);
    let record = record.strip_suffix(b"\n")?;
    let equals = record.iter().position(|b| *b == b'=')?;
    Some((&record[..equals], &record[equals + 1..], after))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}
