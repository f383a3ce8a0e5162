//! Names of files in a patch: in quotes with C escapes where they hold anything unusual, and back. Reference: `core.quotePath` in git-config(1),
//! and git's quote.c.

/// A name as git writes it: in quotes with C escapes if it holds anything unusual.
pub(crate) fn quoted(side: &str, path: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if path.iter().all(is_plain) {
        return [side.as_bytes(), path].concat();
    }
    let mut out = format!("\"{side}").into_bytes();
    for byte in path {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            byte if is_plain(byte) => out.push(*byte),
            byte => out.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// A name as it is if it is made of what no list or sentence is made of, else in quotes.
pub fn plain_or_quoted(name: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/+@%~".contains(byte);
    let quoted = quoted("", name);
    match name.iter().all(is_plain) || quoted.starts_with(b"\"") {
        true => String::from_utf8_lossy(&quoted).into_owned(),
        false => format!("\"{}\"", String::from_utf8_lossy(&quoted)),
    }
}

/// Reads a quoted name from the start of `text`: the name, and what follows the closing quote.
pub(crate) fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => return Some((name, rest)),
            b'\\' => name.push(escaped(&mut rest)?),
            byte => name.push(*byte),
        }
    }
}

/// What stands after a backslash: a letter, or three octal digits of one byte.
fn escaped(rest: &mut &[u8]) -> Option<u8> {
    let (letter, after) = rest.split_first()?;
    let byte = match letter {
        b'a' => 7,
        b'b' => 8,
        b't' => 9,
        b'n' => 10,
        b'v' => 11,
        b'f' => 12,
        b'r' => 13,
        b'"' | b'\\' => *letter,
        b'0'..=b'3' => return octal(rest),
        _ => return None,
    };
    *rest = after;
    Some(byte)
}

fn octal(rest: &mut &[u8]) -> Option<u8> {
    let (digits, after) = rest.split_at_checked(3)?;
    *rest = after;
    digits.iter().all(|digit| (b'0'..=b'7').contains(digit)).then(|| digits.iter().fold(0, |value, digit| value << 3 | (digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_from_its_quotes() {
        let all: Vec<u8> = (1..=255).collect();
        let text = [quoted("", &all).as_slice(), b" rest"].concat();
        assert_eq!(unquoted(&text), Some((all, b" rest".as_slice())));
    }

    #[test]
    fn letters_are_read_as_git_writes_them() {
        assert_eq!(unquoted(br#""\a\b\t\n\v\f\r\"\\\303\251""#), Some((b"\x07\x08\t\n\x0b\x0c\r\"\\\xc3\xa9".to_vec(), b"".as_slice())));
    }

    #[test]
    fn what_is_no_quoted_name_is_none() {
        for text in [r"a", r#"""#, r#""a"#, r#""\"#, r#""\x41""#, r#""\4""#, r#""\18""#, r#""\189""#, r#""\400""#] {
            assert_eq!(unquoted(text.as_bytes()).map(|(name, _)| name), None, "{text}");
        }
    }
}
