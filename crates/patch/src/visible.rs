//! Text of strangers made visible: what a terminal would obey, what nobody sees, and what is no text, stand as `<U+202E>` or `<0xFF>`. Text that
//! looks like such an escape is escaped itself, so that no two texts look the same and no file can claim to hold what it does not.

use std::fmt::Write;

/// A message shows at most so many characters of a line.
const SHOWN: usize = 80;

/// Appends `text` with everything unseen made visible. Line ends and tabs are seen only if `keep` names them.
pub(crate) fn push_visible(text: &[u8], out: &mut String) {
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid().chars();
        while let Some(c) = rest.next() {
            let is_like_an_escape = c == '<' && ["U+", "0x"].iter().any(|start| rest.as_str().starts_with(start));
            match is_hidden(c) || is_like_an_escape {
                true => push_escape(c, out),
                false => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "<0x{byte:02X}>");
        }
    }
}

fn push_escape(c: char, out: &mut String) {
    let _ = write!(out, "<U+{:04X}>", u32::from(c));
}

/// The text with everything unseen made visible, shortened for a message.
pub(crate) fn shown(text: &[u8]) -> String {
    let mut out = String::new();
    push_visible(&text[..text.len().min(SHOWN * 4)], &mut out);
    if out.chars().count() > SHOWN || text.len() > SHOWN * 4 {
        out = out.chars().take(SHOWN).collect();
        out.push('…');
    }
    // In a sentence, a tab is not seen as what it is.
    out.replace('\t', "<U+0009>").replace('`', "'")
}

/// True for what moves a cursor, turns the direction of writing, or takes no room: a reader does not see it, or sees something else because of it.
/// A tab is seen.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\t' || is_format(c)
}

/// Characters without a form of their own: Unicode's category of formats, fillers, and the separators of lines. (`0xFE0F`, which makes a sign
/// a picture, is among the selectors that are escaped too.)
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{110BD}' | '\u{110CD}' | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(text: &[u8]) -> String {
        let mut out = String::new();
        push_visible(text, &mut out);
        out
    }

    #[test]
    fn what_is_unseen_is_shown() {
        assert_eq!(visible("a\tb é 漢 <x>".as_bytes()), "a\tb é 漢 <x>");
        assert_eq!(visible(b"\x1b[2J\r\0\x7f\xc2\x9b"), "<U+001B>[2J<U+000D><U+0000><U+007F><U+009B>");
        assert_eq!(visible("x\u{202e}y\u{200b}\u{e0041}".as_bytes()), "x<U+202E>y<U+200B><U+E0041>");
        assert_eq!(visible(b"\xff\xfe."), "<0xFF><0xFE>.");
    }

    #[test]
    fn no_text_looks_like_the_escape_of_another() {
        assert_eq!(visible(b"<U+202E> <0xFF> <<U+"), "<U+003C>U+202E> <U+003C>0xFF> <<U+003C>U+");
    }

    #[test]
    fn a_message_shows_the_beginning() {
        assert_eq!(shown(&b"x".repeat(10_000)), format!("{}…", "x".repeat(80)));
        assert_eq!(shown("\u{202e}".repeat(10_000).as_bytes()).chars().count(), 81);
        assert_eq!(shown(b"a`b\tc"), "a'b<U+0009>c");
    }
}
