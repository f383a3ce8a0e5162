//! Header fields on their way: those of the one connection stay behind, and a placeholder becomes the value it stands for.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RANGE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method};

use crate::credential::Credential;
use crate::request::mask::Mask;
use crate::request::scrub::Scrubber;
use crate::rules::{Asked, Place, admits};

/// Takes away what is between two ends of one connection only (RFC 9110, section 7.6.1). Transfer encodings are made anew.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != CONTENT_LENGTH)
        .collect();
    let fixed = [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, EXPECT];
    for name in named.into_iter().chain(fixed) {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "proxy-authentication-info"] {
        headers.remove(name);
    }
}

/// True if a WebSocket is asked for (RFC 6455).
pub(crate) fn is_websocket(method: &Method, headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    method == Method::GET && says(UPGRADE, "websocket") && says(CONNECTION, "upgrade")
}

/// Asks for a WebSocket, or grants it.
pub(crate) fn switch(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// True if a field says one word wherever it stands.
pub(crate) fn is_only(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    headers.get_all(name).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
}

/// Puts credentials in. Answers with the name of the one that was, if any.
pub(crate) fn put_in(
    headers: &mut HeaderMap,
    place: &Place,
    asked: &Asked<'_>,
    credentials: &[Credential],
) -> Result<Option<String>, String> {
    let mut put = None;
    for credential in credentials {
        let header: HeaderName = credential.binding.header.parse().map_err(|_| "the credential's header is none".to_owned())?;
        let mut values: Vec<HeaderValue> = headers.get_all(&header).iter().cloned().collect();
        let mut is_changed = false;
        for value in &mut values {
            if let Some(text) = replaced(value.as_bytes(), credential) {
                allow(credential, place, asked)?;
                *value = HeaderValue::from_bytes(&text).map_err(|_| "the credential does not fit a header".to_owned())?;
                value.set_sensitive(true);
                is_changed = true;
            }
        }
        if is_changed {
            headers.remove(&header);
            for value in values {
                headers.append(&header, value);
            }
            put = Some(credential.binding.name.to_string());
        }
    }
    Ok(put)
}

fn allow(credential: &Credential, place: &Place, asked: &Asked<'_>) -> Result<(), String> {
    let binding = &credential.binding;
    match binding.to.scheme == place.scheme && binding.to.is_at(&place.host, place.port) && admits(&binding.to, asked) {
        true => Ok(()),
        false => Err(format!("credential `{}` is for {}, not for {} {}", binding.name, binding.to, asked.method, asked.path)),
    }
}

/// The header with the value in it; `None` if the placeholder is not there. Basic authentication (RFC 7617) carries it encoded.
fn replaced(value: &[u8], credential: &Credential) -> Option<Vec<u8>> {
    let placeholder = credential.placeholder.as_bytes();
    if let Some(text) = replace(value, placeholder, credential.value.expose().as_bytes()) {
        return Some(text);
    }
    let (scheme, encoded) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let text = replace(&decoded, placeholder, credential.value.expose().as_bytes())?;
    Some(format!("{scheme} {}", STANDARD.encode(text)).into_bytes())
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let at = bytes.windows(from.len()).position(|window| window == from)?;
    Some([&bytes[..at], to, &bytes[at + from.len()..]].concat())
}

/// A reply that can be read and comes whole: what is compressed or cut could carry the value unseen.
pub(crate) fn ask_for_plain(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.remove(RANGE);
    headers.remove("if-range");
}

/// Takes masked texts out of a reply's fields. A field with one in its name goes.
pub(crate) fn mask(headers: &mut HeaderMap, masks: &Arc<[Mask]>) {
    let is_clean = |name: &HeaderName| Scrubber::clean_text(masks, name.as_str().as_bytes()) == name.as_str().as_bytes();
    let named: Vec<HeaderName> = headers.keys().filter(|name| !is_clean(name)).cloned().collect();
    for name in named {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        let masked = Scrubber::clean_text(masks, value.as_bytes());
        if masked != value.as_bytes() {
            *value = HeaderValue::from_bytes(&masked).unwrap_or_else(|_| HeaderValue::from_static("***"));
        }
    }
}

/// How many bytes the head of a message is on the wire: its first line, its fields and the empty line.
pub(crate) fn head_length(first_line: usize, headers: &HeaderMap) -> usize {
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum();
    first_line + fields + "\r\n".len()
}
