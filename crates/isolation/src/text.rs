//! Bytes that are nearly always text: arguments and file names. In JSON they are a string in which `%` and what is not UTF-8 stand as `%XX`,
//! so that nothing is lost and a reader still sees the name.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string of bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OsText(Vec<u8>);

impl OsText {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as the operating system takes them.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The text in which `%` and bytes that are not UTF-8 stand as `%XX`.
    pub fn escaped(&self) -> String {
        let mut text = String::new();
        for chunk in self.0.utf8_chunks() {
            text.push_str(&chunk.valid().replace('%', "%25"));
            text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02X}")));
        }
        text
    }

    /// The bytes of which this is the escaped text; `None` if a `%` is not followed by two digits.
    pub fn unescaped(text: &str) -> Option<Self> {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (code, rest) = part.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            bytes.extend(rest.as_bytes());
        }
        Some(Self(bytes))
    }
}

impl fmt::Debug for OsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.escaped())
    }
}

/// For a terminal: control characters escaped as well, so that a name cannot move the cursor.
impl fmt::Display for OsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c.is_control() || is_bidi(c) {
                    true => write!(f, "{}", c.escape_default())?,
                    false => write!(f, "{c}")?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Characters that turn the direction of what follows, or end a line.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

impl From<&str> for OsText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl From<&[u8]> for OsText {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.escaped())
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::unescaped(&text).ok_or_else(|| serde::de::Error::custom("`%` must be followed by two hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        for bytes in [b"plain".as_slice(), b"100%", b"\xff\xfe", "é\u{202e}".as_bytes(), b""] {
            let text = OsText::from(bytes);
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), text);
        }
        assert_eq!(OsText::from(b"a\x1b[31m\xff".as_slice()).to_string(), "a\\u{1b}[31m\\xff");
    }
}
