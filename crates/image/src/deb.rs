//! The files of a Debian package: one member of an `ar` archive. Its scripts are not even looked at.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{At, ImageError};

const MAGIC: &[u8; 8] = b"!<arch>\n";
const HEADER: usize = 60;
/// Members of a package: a version, control files and data, and some room for others.
const MOST_MEMBERS: usize = 16;

/// Whether a file is a package.
pub(crate) fn is_deb(mut file: &File) -> io::Result<bool> {
    let mut magic = Vec::new();
    file.rewind()?;
    file.take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic == MAGIC)
}

/// Copies the files of a package, still compressed, to a place of their own.
pub(crate) fn data(mut file: &File, to: &Path) -> Result<File, ImageError> {
    let damaged = |cause: &str| ImageError::damaged("the package", cause);
    file.seek(SeekFrom::Start(MAGIC.len() as u64)).at("read", to)?;
    for _ in 0..MOST_MEMBERS {
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|_| damaged("it has no data"))?;
        let size = size(&header).ok_or_else(|| damaged("a member has no size"))?;
        if header.starts_with(b"data.tar") {
            let mut out = File::options().read(true).write(true).create_new(true).open(to).at("make", to)?;
            let copied = io::copy(&mut file.take(size), &mut out).at("write", to)?;
            return if copied == size { Ok(out) } else { Err(damaged("it ends too early")) };
        }
        let padded = i64::try_from(size.next_multiple_of(2)).map_err(|_| damaged("a member has an impossible size"))?;
        file.seek(SeekFrom::Current(padded)).at("read", to)?;
    }
    Err(damaged("it has too many members"))
}

/// At 48, ten digits; the header ends with a mark.
fn size(header: &[u8; HEADER]) -> Option<u64> {
    let digits = std::str::from_utf8(&header[48..58]).ok()?.trim_end();
    (header.ends_with(b"`\n") && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}
