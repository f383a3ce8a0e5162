//! `GIT binary patch` literals: zlib, then base 85 in lines of at most 52 bytes. Format: git's diff.c and base85.c, gitformat in git-apply(1).

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// One `literal` block, with the empty line that ends it.
pub(super) fn literal(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    let packed = encoder.finish()?;
    let mut out = format!("literal {}\n", bytes.len()).into_bytes();
    for line in packed.chunks(52) {
        out.push(length_letter(line.len()));
        line.chunks(4).for_each(|group| encode(group, &mut out));
        out.push(b'\n');
    }
    out.push(b'\n');
    Ok(out)
}

/// A to Z for 1 to 26, a to z for 27 to 52.
fn length_letter(length: usize) -> u8 {
    let length = length as u8;
    if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 }
}

/// Four bytes, padded with zeros, as five digits.
fn encode(group: &[u8], out: &mut Vec<u8>) {
    let mut value = group.iter().chain([0; 3].iter()).take(4).fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(value % 85) as usize];
        value /= 85;
    }
    out.extend(digits);
}
