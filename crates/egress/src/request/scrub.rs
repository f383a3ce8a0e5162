//! Takes texts out of a stream of bytes, wherever its pieces are cut.

use std::sync::Arc;

use crate::request::mask::Mask;

/// The texts, and the end of what was seen that could be the beginning of one.
#[derive(Debug)]
pub(crate) struct Scrubber {
    masks: Arc<[Mask]>,
    held: Vec<u8>,
}

impl Scrubber {
    pub(crate) fn new(masks: Arc<[Mask]>) -> Self {
        Self { masks, held: Vec::new() }
    }

    /// What can be passed on of all that was seen.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.clean(false)
    }

    /// What is left at the end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.clean(true)
    }

    /// A whole text without the others in it.
    pub(crate) fn clean_text(masks: &Arc<[Mask]>, text: &[u8]) -> Vec<u8> {
        Self { masks: masks.clone(), held: text.to_vec() }.clean(true)
    }

    /// Each text is looked for once from where it was last found, so that many of them cost no more than few.
    fn clean(&mut self, is_end: bool) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let mut found: Vec<Option<usize>> = self.masks.iter().map(|mask| mask.find(&held, 0)).collect();
        let (mut clean, mut at) = (Vec::with_capacity(held.len()), 0);
        while let Some((start, length, mask)) = self.first(&held, &found) {
            if start + length == held.len() && length < mask.text.len() && !is_end {
                break; // it may go on
            }
            clean.extend_from_slice(&held[at..start]);
            clean.extend_from_slice(&mask.instead);
            at = start + length;
            for (mask, found) in self.masks.iter().zip(&mut found) {
                if found.is_some_and(|found| found < at) {
                    *found = mask.find(&held, at);
                }
            }
        }
        let kept = if is_end { 0 } else { self.suspicious(&held[at..]) };
        clean.extend_from_slice(&held[at..held.len() - kept]);
        self.held = held[held.len() - kept..].to_vec();
        clean
    }

    /// Of the texts that were found the first, and of those the longest.
    fn first<'a>(&'a self, held: &[u8], found: &[Option<usize>]) -> Option<(usize, usize, &'a Mask)> {
        let here = self.masks.iter().zip(found).filter_map(|(mask, start)| Some(((*start)?, mask)));
        let lengths = here.map(|(start, mask)| (start, mask.length_at(&held[start..]), mask));
        lengths.min_by_key(|(start, length, _)| (*start, std::cmp::Reverse(*length)))
    }

    /// Bytes at the end that may begin one of the texts.
    fn suspicious(&self, bytes: &[u8]) -> usize {
        let longest = self.masks.iter().map(|mask| mask.text.len()).max().unwrap_or(0);
        let most = longest.saturating_sub(1).min(bytes.len());
        let begins = |length: &usize| self.masks.iter().any(|mask| mask.text.starts_with(&bytes[bytes.len() - length..]));
        (1..=most).rev().find(begins).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(masks: &Arc<[Mask]>, pieces: &[&[u8]]) -> String {
        let mut scrubber = Scrubber::new(masks.clone());
        let mut passed: Vec<u8> = pieces.iter().flat_map(|piece| scrubber.pass(piece)).collect();
        passed.extend(scrubber.finish());
        String::from_utf8(passed).unwrap()
    }

    #[test]
    fn a_text_and_its_longer_half_are_taken_out_wherever_they_are_cut() {
        let masks: Arc<[Mask]> = [Mask::new(b"s3cret-value".to_vec(), b"PLACE")].into();
        let text = b"before s3cret-value s3cret- s3cret-valu s3cret-value-after s3cret-values3cret-value s3cret-va";
        let wanted = "before PLACE s3cret- PLACE PLACE-after PLACEPLACE PLACE";
        for first in 0..text.len() {
            for second in first..text.len() {
                let passed = in_pieces(&masks, &[&text[..first], &text[first..second], &text[second..]]);
                assert_eq!(passed, wanted, "{first} {second}");
            }
        }
    }

    #[test]
    fn of_two_texts_at_one_place_the_longer_goes() {
        let masks: Arc<[Mask]> = [Mask::new(b"12345678".to_vec(), b"SHORT"), Mask::new(b"12345678-and-more".to_vec(), b"LONG")].into();
        assert_eq!(in_pieces(&masks, &[b"12345678 1234", b"5678-and-more 12345678-a"]), "SHORT LONG LONG");
    }
}
