//! The older form of a page: links whose text is a file's name, with facts in attributes and the hash behind `#`.

use std::collections::BTreeMap;

use super::page::{Beside, Flag, Told};

/// Reads every link. One pass: a page may be as large as its limit.
pub(super) fn parse(text: &str) -> Vec<Told> {
    let mut told = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let is_link = rest.starts_with(['a', 'A']) && rest[1..].starts_with(char::is_whitespace);
        if !is_link {
            continue;
        }
        let Some(end) = tag_end(rest) else { break };
        let (tag, after) = rest.split_at(end);
        let label = after[1..].split('<').next().unwrap_or_default();
        told.extend(link(&attributes(&tag[1..]), label));
        rest = after;
    }
    told
}

/// Where the tag ends: the first `>` outside quotes.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    tag.char_indices().find_map(|(at, c)| match (quote, c) {
        (None, '>') => Some(at),
        (None, '"' | '\'') => {
            quote = Some(c);
            None
        }
        (Some(open), c) if c == open => {
            quote = None;
            None
        }
        (None | Some(_), _) => None,
    })
}

fn attributes(tag: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = tag.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let (value, after) = match after.trim_start().strip_prefix('=').map(str::trim_start) {
            None => ("", after),
            Some(value) if value.starts_with(['"', '\'']) => {
                let (quote, inner) = value.split_at(1);
                inner.split_once(quote).unwrap_or((inner, ""))
            }
            Some(value) => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        found.insert(key.to_ascii_lowercase(), unescaped(value));
        rest = after.trim_start().trim_start_matches('/');
    }
    found
}

fn link(attributes: &BTreeMap<String, String>, label: &str) -> Option<Told> {
    let (url, fragment) = attributes.get("href")?.split_once('#').unwrap_or((attributes.get("href")?, ""));
    let named = |text: &str| text.split_once('=').map(|(algorithm, digits)| BTreeMap::from([(algorithm.to_owned(), digits.to_owned())]));
    let beside = attributes.get("data-core-metadata").or_else(|| attributes.get("data-dist-info-metadata"));
    Some(Told {
        filename: unescaped(label).trim().to_owned(),
        url: url.to_owned(),
        hashes: named(fragment).unwrap_or_default(),
        requires_python: attributes.get("data-requires-python").cloned(),
        yanked: attributes.get("data-yanked").cloned().map(Flag::Because),
        core_metadata: beside.and_then(|text| named(text)).map(Beside::Hashes),
        ..Told::default()
    })
}

fn unescaped(text: &str) -> String {
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")];
    plain.iter().fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_with_their_attributes() {
        let text = "<!DOCTYPE html><body><a href=\"../x-1.0-py3-none-any.whl#sha256=ab\" data-requires-python=\"&gt;=3.8\" \
                    data-yanked='>bad' data-core-metadata=\"sha256=cd\">x-1.0-py3-none-any.whl</a>\n<a href=y.zip>y.zip</a><a name";
        let told = parse(text);
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].url.as_str(), told[0].filename.as_str()), ("../x-1.0-py3-none-any.whl", "x-1.0-py3-none-any.whl"));
        assert_eq!((told[0].requires_python.as_deref(), told[0].hashes["sha256"].as_str()), (Some(">=3.8"), "ab"));
        assert!(matches!(&told[0].yanked, Some(Flag::Because(reason)) if reason == ">bad"));
        assert!(matches!(&told[0].core_metadata, Some(Beside::Hashes(hashes)) if hashes["sha256"] == "cd"));
        assert_eq!(told[1].url, "y.zip");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_page(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..32)) {
            drop(parse(&pieces.concat()));
        }
    }

    const PIECES: &[&str] =
        &["<a", "<A", " ", "href=", "\"", "'", ">", "</a>", "x-1.0.zip", "#", "sha256=", "=", "/", "&amp;", "data-yanked", "ä", "<"];
}
