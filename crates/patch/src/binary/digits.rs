//! Base 85 as git writes it: a letter for the length of a line, then five digits for each four bytes.

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// No digit.
const NONE: u8 = 85;

/// The value of each byte as a digit.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        values[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

/// Why a line is not base 85.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigitFault {
    /// The first letter says no length.
    #[error("does not begin with the letter of its length")]
    Length,
    /// There are more or fewer digits than the length takes.
    #[error("is not as long as its first letter says")]
    Count,
    /// A byte is no digit, or five digits are more than four bytes.
    #[error("is not base 85")]
    Digit,
    /// The bytes that fill up the last group are not zero.
    #[error("has something in the bytes that only fill it up")]
    Padding,
}

/// One line of at most 52 bytes, with its end.
pub(crate) fn encode_line(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(length_letter(bytes.len()));
    bytes.chunks(4).for_each(|group| encode(group, out));
    out.push(b'\n');
}

/// Reads one line, without its end.
pub(crate) fn decode_line(line: &[u8], out: &mut Vec<u8>) -> Result<(), DigitFault> {
    let (letter, digits) = line.split_first().ok_or(DigitFault::Length)?;
    let length = length_of(*letter).ok_or(DigitFault::Length)?;
    if digits.len() != length.div_ceil(4) * 5 {
        return Err(DigitFault::Count);
    }
    let end = out.len() + length;
    for group in digits.chunks_exact(5) {
        out.extend(decode(group).ok_or(DigitFault::Digit)?);
    }
    let is_filled_with_zeros = out[end..].iter().all(|byte| *byte == 0);
    out.truncate(end);
    is_filled_with_zeros.then_some(()).ok_or(DigitFault::Padding)
}

/// A to Z for 1 to 26, a to z for 27 to 52.
fn length_letter(length: usize) -> u8 {
    let length = length as u8;
    if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 }
}

fn length_of(letter: u8) -> Option<usize> {
    match letter {
        b'A'..=b'Z' => Some(usize::from(letter - b'A') + 1),
        b'a'..=b'z' => Some(usize::from(letter - b'a') + 27),
        _ => None,
    }
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

fn decode(group: &[u8]) -> Option<[u8; 4]> {
    let value = group.iter().try_fold(0u32, |value, byte| match VALUES[usize::from(*byte)] {
        NONE => None,
        digit => value.checked_mul(85)?.checked_add(u32::from(digit)),
    })?;
    Some(value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_length_come_back() {
        for length in 1..=52usize {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 + 200) as u8).collect();
            let (mut line, mut out) = (Vec::new(), b"before".to_vec());
            encode_line(&bytes, &mut line);
            assert_eq!(decode_line(&line[..line.len() - 1], &mut out), Ok(()));
            assert_eq!(out, [b"before".as_slice(), &bytes].concat());
        }
    }

    #[test]
    fn a_line_that_is_not_what_git_writes_is_refused() {
        let read = |line: &str| decode_line(line.as_bytes(), &mut Vec::new()).unwrap_err();
        assert_eq!(["", "0", "!00000"].map(read), [DigitFault::Length; 3]);
        assert_eq!(["A", "A0000", "A000000", "E00000"].map(read), [DigitFault::Count; 4]);
        assert_eq!(["D0000 ", "D~~~~~", "D\"0000"].map(read), [DigitFault::Digit; 3]);
        assert_eq!(read("A00001"), DigitFault::Padding);
    }
}
