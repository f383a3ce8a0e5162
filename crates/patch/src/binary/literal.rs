//! Writing a literal: zlib, then base 85 in lines of at most 52 bytes.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::digits::encode_line;

/// One `literal` block, with the empty line that ends it.
pub(crate) fn literal(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    let packed = encoder.finish()?;
    let mut out = format!("literal {}\n", bytes.len()).into_bytes();
    packed.chunks(52).for_each(|line| encode_line(line, &mut out));
    out.push(b'\n');
    Ok(out)
}
