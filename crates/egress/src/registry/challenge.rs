//! What a registry asks for when it answers 401: the `WWW-Authenticate` header.

use std::collections::BTreeMap;

/// What would be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A name and a password.
    Basic,
    /// A token, which somebody else gives out.
    Bearer {
        /// Who gives it out.
        realm: String,
        /// For which service.
        service: Option<String>,
        /// To do what.
        scope: Option<String>,
    },
}

/// Reads a header; `None` for what is not understood.
pub(super) fn parse(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    match scheme.to_ascii_lowercase().as_str() {
        "basic" => Some(Challenge::Basic),
        "bearer" => {
            let mut fields = fields(rest)?;
            Some(Challenge::Bearer { realm: fields.remove("realm")?, service: fields.remove("service"), scope: fields.remove("scope") })
        }
        _ => None,
    }
}

/// `NAME="VALUE"` or `NAME=VALUE`, divided by commas.
fn fields(text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.find(',').map_or((after, ""), |at| after.split_at(at)),
        };
        found.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_with_its_commas() {
        let read = parse("Bearer realm=\"https://auth.example.com/token\",service=registry, scope=\"repository:a/b:pull,push\"");
        let text = |text: &str| text.to_owned();
        let wanted = Challenge::Bearer {
            realm: text("https://auth.example.com/token"),
            service: Some(text("registry")),
            scope: Some(text("repository:a/b:pull,push")),
        };
        assert_eq!(read, Some(wanted));
        assert_eq!(parse("basic realm=\"x\""), Some(Challenge::Basic));
        for bad in ["Bearer", "Bearer service=\"x\"", "Bearer realm=\"x", "Negotiate", ""] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
