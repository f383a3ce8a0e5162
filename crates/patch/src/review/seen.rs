//! What in a text is not seen as what it is: characters without a form, and letters that look like those of another script.

use std::collections::BTreeSet;

use crate::visible::{is_hidden, shown};

/// Different things are listed up to this number.
const NAMED: usize = 5;

/// The characters and bytes of a text that are not seen.
pub(super) fn hidden(text: &[u8]) -> Option<String> {
    if text.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)) {
        return None;
    }
    let mut found = BTreeSet::new();
    for chunk in text.utf8_chunks() {
        found.extend(chunk.valid().chars().filter(|c| is_hidden(*c)).map(|c| format!("U+{:04X}", u32::from(c))));
        found.extend(chunk.invalid().iter().map(|byte| format!("0x{byte:02X}")));
    }
    let named: Vec<String> = found.iter().take(NAMED).cloned().collect();
    let more = if found.len() > NAMED { " and more" } else { "" };
    (!named.is_empty()).then(|| format!("{}{more}", named.join(" ")))
}

/// The first word that has letters of the Latin alphabet and others that look like them.
pub(super) fn mixed(text: &[u8]) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_mixed = |word: &&str| word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(looks_latin);
    words.find(is_mixed).map(|word| format!("`{}`", shown(word.as_bytes())))
}

/// Letters of Cyrillic, those of Greek that look like Latin ones, and Latin ones in other widths and styles.
fn looks_latin(c: char) -> bool {
    matches!(c, '\u{0400}'..='\u{052F}' | '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}' | '\u{1D400}'..='\u{1D7FF}')
        || "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοανικρυχ".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_named_once() {
        assert_eq!(hidden("plain\té 漢".as_bytes()), None);
        assert_eq!(hidden("a\u{202e}b\u{202e}\u{200b}\u{1b}".as_bytes()).as_deref(), Some("U+001B U+200B U+202E"));
        assert_eq!(hidden(b"\xff\x00").as_deref(), Some("0xFF U+0000"));
        assert_eq!(hidden(b"\x01\x02\x03\x04\x05\x06").as_deref(), Some("U+0001 U+0002 U+0003 U+0004 U+0005 and more"));
    }

    #[test]
    fn a_word_of_two_scripts_is_found() {
        assert_eq!(mixed("plain приве\u{301}т λx Δt naïve".as_bytes()), None);
        assert_eq!(mixed("if is_аdmin {".as_bytes()).as_deref(), Some("`is_аdmin`"));
    }
}
