//! Chunks of bytes as text: a character that is cut by the end of a chunk is kept until the rest comes; what is no UTF-8 becomes U+FFFD.

/// The bytes of a character whose end has not come, at most three.
#[derive(Debug, Default)]
pub(super) struct TextDecoder {
    begun: Vec<u8>,
}

impl TextDecoder {
    /// The text that is complete with these bytes; it may be empty.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let begun = unfinished(&all);
        self.begun = all.split_off(all.len() - begun);
        String::from_utf8_lossy(&all).into_owned()
    }

    /// What is left when nothing more comes.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned()
    }
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let tail = last.map_or(&[][..], |chunk| chunk.invalid());
    let may_go_on = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
    if may_go_on { tail.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_be_cut_anywhere() {
        let text = "aé€😀z".as_bytes();
        for cut in 0..=text.len() {
            let mut decoder = TextDecoder::default();
            let whole = decoder.push(&text[..cut]) + &decoder.push(&text[cut..]) + &decoder.finish();
            assert_eq!(whole.as_bytes(), text);
        }
    }

    #[test]
    fn what_is_no_text_is_marked_and_nothing_waits_for_ever() {
        let mut decoder = TextDecoder::default();
        assert_eq!(decoder.push(b"\xffa\xe2\x82"), "\u{fffd}a");
        assert_eq!(decoder.push(b"b"), "\u{fffd}b");
        assert_eq!(decoder.push(b"\xf0\x9f") + &decoder.finish(), "\u{fffd}");
    }
}
