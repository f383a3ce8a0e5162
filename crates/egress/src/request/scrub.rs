//! Takes texts out of a stream of bytes, wherever its pieces are cut.

use crate::request::headers::{Masks, replace_all};

/// The texts, and the end of what was seen that could be the beginning of one.
#[derive(Debug)]
pub(crate) struct Scrubber {
    masks: Masks,
    held: Vec<u8>,
    longest: usize,
}

impl Scrubber {
    pub(crate) fn new(mut masks: Masks) -> Self {
        // The longest first: a text may hold another one.
        masks.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        let longest = masks.iter().map(|(from, _)| from.len()).max().unwrap_or(0);
        Self { masks, held: Vec::new(), longest }
    }

    /// What can be passed on of all that was seen.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let clean = self.clean();
        let kept = self.suspicious(&clean);
        self.held = clean[clean.len() - kept..].to_vec();
        clean[..clean.len() - kept].to_vec()
    }

    /// What is left at the end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn clean(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.masks.iter().fold(held, |text, (from, to)| replace_all(text, from, to))
    }

    /// Bytes at the end that may begin one of the texts.
    fn suspicious(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let begins = |length: &usize| self.masks.iter().any(|(from, _)| from.starts_with(&bytes[bytes.len() - length..]));
        (1..=most).rev().find(begins).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_out_wherever_it_is_cut() {
        let text = b"before s3cret-value s3cret-valu s3cret-value-after s3cret-values3cret-value";
        let wanted = b"before PLACE s3cret-valu PLACE-after PLACEPLACE".to_vec();
        for first in 0..text.len() {
            for second in first..text.len() {
                let mut scrubber = Scrubber::new(vec![(b"s3cret-value".to_vec(), b"PLACE".to_vec())]);
                let mut passed = Vec::new();
                for part in [&text[..first], &text[first..second], &text[second..]] {
                    passed.extend(scrubber.pass(part));
                }
                passed.extend(scrubber.finish());
                assert_eq!(passed, wanted, "{first} {second}");
            }
        }
    }
}
