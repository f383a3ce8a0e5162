//! Deltas: content made of pieces of the old content and of new bytes. A small one can declare a huge result, so its sizes are read first, and
//! it is checked as a whole before a byte is made. Format: gitformat-pack(5), "deltified representation".

/// A delta whose instructions are well formed and make what it says they make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delta {
    from: usize,
    makes: usize,
    steps: Vec<u8>,
}

/// Why bytes are not a delta, or not one for this content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeltaFault {
    /// It ends inside a number or an instruction, or one has no meaning.
    #[error("is not a delta: its instructions are broken")]
    Broken,
    /// An instruction takes what the old content does not have.
    #[error("takes bytes from beyond the old content")]
    Beyond,
    /// The instructions make another length than is declared.
    #[error("does not make as many bytes as it says")]
    Length,
    /// The content is not as long as the one that it was made for.
    #[error("is a delta for {0} bytes of old content")]
    Base(usize),
}

enum Step<'a> {
    Copy { start: usize, length: usize },
    Insert(&'a [u8]),
}

impl Delta {
    /// Checks a delta.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DeltaFault> {
        let mut rest = bytes;
        let (from, makes) = (size(&mut rest)?, size(&mut rest)?);
        let delta = Self { from, makes, steps: rest.to_vec() };
        let made = delta.steps().try_fold(0usize, |made, step| {
            let length = match step? {
                Step::Copy { start, length } if start.checked_add(length).is_none_or(|end| end > from) => return Err(DeltaFault::Beyond),
                Step::Copy { length, .. } => length,
                Step::Insert(bytes) => bytes.len(),
            };
            made.checked_add(length).ok_or(DeltaFault::Length)
        })?;
        if made == makes { Ok(delta) } else { Err(DeltaFault::Length) }
    }

    /// How many bytes it makes.
    pub(crate) fn makes(&self) -> usize {
        self.makes
    }

    /// Makes the new content from the old.
    pub(crate) fn apply(&self, base: &[u8]) -> Result<Vec<u8>, DeltaFault> {
        if base.len() != self.from {
            return Err(DeltaFault::Base(self.from));
        }
        let mut out = Vec::with_capacity(self.makes);
        for step in self.steps() {
            match step? {
                Step::Copy { start, length } => out.extend_from_slice(base.get(start..start + length).ok_or(DeltaFault::Beyond)?),
                Step::Insert(bytes) => out.extend_from_slice(bytes),
            }
        }
        Ok(out)
    }

    fn steps(&self) -> impl Iterator<Item = Result<Step<'_>, DeltaFault>> {
        let mut rest = self.steps.as_slice();
        std::iter::from_fn(move || (!rest.is_empty()).then(|| step(&mut rest)))
    }
}

fn step<'a>(rest: &mut &'a [u8]) -> Result<Step<'a>, DeltaFault> {
    match take(rest, 1)?[0] {
        0 => Err(DeltaFault::Broken),
        count @ 1..=0x7f => Ok(Step::Insert(take(rest, usize::from(count))?)),
        bits => {
            let start = number(rest, bits, 4)?;
            let length = number(rest, bits >> 4, 3)?;
            Ok(Step::Copy { start, length: if length == 0 { 0x10000 } else { length } })
        }
    }
}

/// A number of which only the bytes that are not zero are written; `bits` says which.
fn number(rest: &mut &[u8], bits: u8, bytes: u32) -> Result<usize, DeltaFault> {
    (0..bytes).filter(|place| bits >> place & 1 == 1).try_fold(0, |value, place| Ok(value | usize::from(take(rest, 1)?[0]) << (8 * place)))
}

/// A size in groups of seven bits, the lowest first.
fn size(rest: &mut &[u8]) -> Result<usize, DeltaFault> {
    let mut value = 0;
    for place in 0..8 {
        let byte = take(rest, 1)?[0];
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DeltaFault::Broken)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], DeltaFault> {
    let (taken, after) = rest.split_at_checked(count).ok_or(DeltaFault::Broken)?;
    *rest = after;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_new_bytes_make_the_content() {
        // from 6, makes 7: bytes 2..5 of the old content, then "new", then byte 0
        let delta = Delta::parse(&[6, 7, 0x91, 2, 3, 3, b'n', b'e', b'w', 0x90, 1]).unwrap();
        assert_eq!(delta.apply(b"abcdef"), Ok(b"cdenewa".to_vec()));
        assert_eq!(delta.apply(b"abcde"), Err(DeltaFault::Base(6)));
    }

    #[test]
    fn a_copy_without_a_length_is_of_64_kib() {
        let mut bytes = vec![0x80, 0x80, 4, 0x80, 0x80, 4, 0x80];
        assert_eq!(Delta::parse(&bytes).unwrap().apply(&vec![1; 0x10000]), Ok(vec![1; 0x10000]));
        bytes[0] = 0x81;
        assert_eq!(Delta::parse(&bytes).unwrap().apply(&vec![1; 0x10000]), Err(DeltaFault::Base(0x10001)));
    }

    #[test]
    fn broken_deltas_are_refused() {
        assert_eq!(Delta::parse(&[]), Err(DeltaFault::Broken));
        assert_eq!(Delta::parse(&[0x80; 9]), Err(DeltaFault::Broken));
        assert_eq!(Delta::parse(&[6, 3, 3, b'n']), Err(DeltaFault::Broken));
        assert_eq!(Delta::parse(&[6, 3, 0]), Err(DeltaFault::Broken));
        assert_eq!(Delta::parse(&[6, 3, 0x91, 4, 3]), Err(DeltaFault::Beyond));
        assert_eq!(Delta::parse(&[6, 4, 0x90, 3]), Err(DeltaFault::Length));
    }
}
