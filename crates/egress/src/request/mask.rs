//! What a reply may not hold: a credential's value, in every form that an honest host may give it back in.
//!
//! A host that means to can hide what it is told from anybody. These are the forms of those that do not mean to: an echo, an error that quotes, a page
//! that lists its headers, a log.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem::Finder;

use crate::credential::{Credential, CredentialValue};

/// A text, and what is to stand in its place. Its longer half counts as all of it: a host may cut what it quotes.
#[derive(Debug)]
pub(crate) struct Mask {
    pub(crate) text: Vec<u8>,
    pub(crate) instead: Vec<u8>,
    beginning: Finder<'static>,
}

impl Mask {
    pub(crate) fn new(text: Vec<u8>, instead: &[u8]) -> Self {
        let least = text.len().div_ceil(2).max(CredentialValue::LEAST).min(text.len());
        Self { beginning: Finder::new(&text[..least]).into_owned(), instead: instead.to_vec(), text }
    }

    /// Where enough of it begins, at `from` or behind.
    pub(crate) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        Some(from + self.beginning.find(&bytes[from..])?)
    }

    /// How much of it stands at the beginning of some bytes.
    pub(crate) fn length_at(&self, bytes: &[u8]) -> usize {
        self.text.iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count()
    }
}

/// The masks of some credentials.
pub(crate) fn masks_of(credentials: &[Credential]) -> Arc<[Mask]> {
    let masks = |credential: &Credential| {
        let placeholder = credential.placeholder.as_bytes().to_vec();
        forms(credential.value.expose()).into_iter().map(move |form| Mask::new(form, &placeholder))
    };
    credentials.iter().flat_map(masks).collect()
}

fn forms(value: &str) -> Vec<Vec<u8>> {
    let texts = [
        value.to_owned(),
        value.to_ascii_lowercase(),
        value.to_ascii_uppercase(),
        each(value, |byte| format!("{byte:02x}")),
        each(value, |byte| format!("{byte:02X}")),
        each(value, |byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }),
        each(value, |byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }),
        each(value, |byte| in_json(byte, false)),
        each(value, |byte| in_json(byte, true)),
        each(value, in_html),
    ];
    let wide = value.bytes().flat_map(|byte| [byte, 0]).take(value.len() * 2 - 1).collect();
    let encoded = [inner_base64(value, &STANDARD_NO_PAD), inner_base64(value, &URL_SAFE_NO_PAD)].into_iter().flatten();
    let mut forms: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).chain([wide]).chain(encoded).collect();
    forms.sort();
    forms.dedup();
    forms
}

fn each(value: &str, form: impl Fn(u8) -> String) -> String {
    value.bytes().map(form).collect()
}

/// RFC 3986, section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// As JSON is written by most, and by those who fear for a page that it is put into.
fn in_json(byte: u8, is_careful: bool) -> String {
    match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b'/' if is_careful => "\\/".to_owned(),
        b'<' | b'>' | b'&' | b'\'' if is_careful => format!("\\u{byte:04x}"),
        byte => char::from(byte).to_string(),
    }
}

fn in_html(byte: u8) -> String {
    match byte {
        b'&' => "&amp;".to_owned(),
        b'<' => "&lt;".to_owned(),
        b'>' => "&gt;".to_owned(),
        b'"' => "&quot;".to_owned(),
        b'\'' => "&#39;".to_owned(),
        byte => char::from(byte).to_string(),
    }
}

/// The characters of Base64 that the value alone decides, at each of the three places where it can begin in a longer text. At either end one more
/// character may hold some bits of it.
fn inner_base64(value: &str, engine: &impl Engine) -> Vec<Vec<u8>> {
    let at = |(before, mixed): (usize, usize)| {
        let text = [&vec![0; before], value.as_bytes()].concat();
        let mut encoded = engine.encode(&text).into_bytes();
        encoded.truncate(text.len() * 4 / 3);
        encoded.split_off(mixed)
    };
    [(0, 0), (1, 2), (2, 3)].map(at).into()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::request::scrub::Scrubber;

    const VALUE: &str = "s3cret&value/of+the\"bait'";

    fn masks() -> Arc<[Mask]> {
        let binding = "api: https://api.example.com:443 header=authorization variable=T".parse().unwrap();
        let value = CredentialValue::new(VALUE.into()).unwrap();
        masks_of(&[Credential { binding, placeholder: "PLACE".into(), value }])
    }

    #[test]
    fn a_value_is_known_in_many_forms() {
        let mut encoded = String::new();
        VALUE.bytes().for_each(|byte| write!(encoded, "{byte:02x}").unwrap());
        for form in [
            VALUE.to_owned(),
            VALUE.to_uppercase(),
            encoded,
            serde_json::to_string(VALUE).unwrap(),
            "s3cret\\u0026value\\/of+the\\\"bait\\u0027".into(),
            "s3cret&amp;value/of+the&quot;bait&#39;".into(),
            "s3cret%26value%2Fof%2Bthe%22bait%27".into(),
            "s3cret%26value%2fof%2bthe%22bait%27".into(),
            VALUE[..VALUE.len() - 3].into(),
        ] {
            let clean = String::from_utf8(Scrubber::clean_text(&masks(), form.as_bytes())).unwrap();
            assert_eq!(clean.trim_matches('"'), "PLACE", "{form}");
        }
        let wide: Vec<u8> = VALUE.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(Scrubber::clean_text(&masks(), &wide), b"PLACE\0");
    }

    #[test]
    fn it_is_known_anywhere_in_what_is_encoded() {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            for before in ["", "a", "ab", "abc", "me:"] {
                let encoded = engine.encode(format!("{before}{VALUE} and more"));
                let clean = String::from_utf8(Scrubber::clean_text(&masks(), encoded.as_bytes())).unwrap();
                assert!(clean.contains("PLACE") && clean.len() < encoded.len() - 20, "{encoded} {clean}");
            }
        }
    }
}
