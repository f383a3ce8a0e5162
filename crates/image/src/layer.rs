//! One archive of a root file system, or of a change to one: opened, decompressed, measured, and walked entry by entry.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ringfence_policy::ImageDigest;

use crate::archive::{Archive, Entry};
use crate::caps::Budget;
use crate::error::ImageError;
use crate::measured::{Measured, as_cap};

/// A layer, in whatever compression.
#[derive(Debug)]
pub(crate) struct Layer {
    /// How messages name it.
    pub(crate) name: String,
    pub(crate) file: File,
    /// What it is once decompressed, where somebody vouches for that.
    pub(crate) content: Option<ImageDigest>,
}

impl Layer {
    /// Looks at every entry without writing anything: whether it is whole, what its digest says, and within what is left of the caps.
    pub(crate) fn survey(&self, budget: &mut Budget) -> Result<ImageDigest, ImageError> {
        self.walk(budget, |_, _, _| Ok(()))
    }

    /// Reads the layer from its beginning to its end, and answers with the digest of its content.
    pub(crate) fn walk(
        &self,
        budget: &mut Budget,
        mut each: impl FnMut(Entry, &mut Archive<Content<'_>>, &mut Budget) -> Result<(), ImageError>,
    ) -> Result<ImageDigest, ImageError> {
        let damaged = |error: io::Error| as_cap(&error).unwrap_or_else(|| ImageError::damaged(&self.name, error));
        let content = decompressed(&self.file).map_err(damaged)?;
        let mut archive = Archive::new(Measured::new(content, budget.stream_left(), budget.caps.bytes));
        while let Some(entry) = archive.next(budget)? {
            each(entry, &mut archive, budget)?;
        }
        let (bytes, digest) = archive.into_inner().finish().map_err(damaged)?;
        budget.stream(bytes);
        match &self.content {
            Some(expected) if *expected != digest => {
                Err(ImageError::damaged(&self.name, format!("its content has the digest {digest}, not {expected}")))
            }
            Some(_) | None => Ok(digest),
        }
    }
}

/// What a layer holds, decompressed.
pub(crate) type Content<'a> = Measured<Box<dyn Read + 'a>>;

/// What an xz file may ask for: its best compression takes 64 MiB.
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// Plain, gzip, zstd or xz, as its first bytes say; what somebody calls it does not matter.
fn decompressed(mut file: &File) -> io::Result<Box<dyn Read + '_>> {
    let mut magic = Vec::new();
    file.rewind()?;
    file.take(4).read_to_end(&mut magic)?;
    file.rewind()?;
    let reader = BufReader::with_capacity(128 << 10, file);
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(reader)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::with_buffer(reader)?),
        [0xfd, b'7', b'z', b'X'] => Box::new(XzReader::new_mem_limit(reader, true, XZ_MEMORY_KIB)),
        _ => Box::new(reader),
    })
}
