//! Files that a client fetches.

use std::io::Read;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use ringfence_evidence::{Digest, Event};
use sha2::{Digest as _, Sha256};

use super::entry::{path, text};
use super::{Call, query, user};
use crate::e2b::error::E2bError;
use crate::reply::Parts;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// In which form a client takes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// Answers with a file as it is. What has left is on record before it is whole.
pub(super) async fn download(call: Call) -> Result<Response, E2bError> {
    let Call { serving, sandbox, request } = call;
    let asked = query(request.uri());
    check_user(&sandbox, asked.get("username"))?;
    let encoding = encoding(request.headers())?;
    let at = path(&sandbox, asked.get("path").map(String::as_str).unwrap_or_default());
    let files = sandbox.session.files()?;
    let opened = tokio::task::spawn_blocking(move || files.read(&at)).await;
    let (file, entry) = opened.map_err(|panic| E2bError::from(serving.failed(&panic)))??;
    let (parts, body) = Parts::channel();
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    match encoding {
        Encoding::Gzip => drop(headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"))),
        Encoding::Identity => drop(headers.insert(CONTENT_LENGTH, entry.bytes.into())),
    }
    let length = (encoding == Encoding::Identity).then_some(entry.bytes);
    tokio::task::spawn_blocking(move || {
        let mut told = Told { inner: file.take(length.unwrap_or(u64::MAX)), digest: Sha256::new(), bytes: 0 };
        let sent = match encoding {
            Encoding::Identity => send(&mut told, &parts),
            Encoding::Gzip => send(&mut GzEncoder::new(&mut told, Compression::fast()), &parts),
        };
        let sha256 = Digest::from_bytes(told.digest.finalize().into());
        let noted = sandbox.session.note(Event::FileSent { path: text(&entry.path), bytes: told.bytes, sha256 });
        // A file that became shorter meanwhile, or whose leaving is not on record, is not there whole.
        if sent && (noted.is_err() || length.is_some_and(|length| told.bytes < length)) {
            let broken = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            parts.blocking_send(Err(broken)).unwrap_or_default();
        }
    });
    Ok(response)
}

/// What is read is counted and hashed.
struct Told<R> {
    inner: R,
    digest: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Told<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// False if the client is gone or reading failed, of which the client hears.
fn send(from: &mut dyn Read, parts: &tokio::sync::mpsc::Sender<std::io::Result<Bytes>>) -> bool {
    let mut piece = vec![0; PIECE];
    loop {
        let part = match from.read(&mut piece) {
            Ok(0) => return true,
            Ok(read) => Ok(Bytes::copy_from_slice(&piece[..read])),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_broken = part.is_err();
        if parts.blocking_send(part).is_err() || is_broken {
            return false;
        }
    }
}

pub(super) fn check_user(sandbox: &crate::e2b::Sandbox, name: Option<&String>) -> Result<(), E2bError> {
    let checked = user::check(sandbox, name.map(String::as_str).unwrap_or_default());
    checked.map_err(|fault| E2bError::new(StatusCode::UNAUTHORIZED, fault.message))
}

/// Gzip where it is asked for by name; nothing else but the file as it is.
fn encoding(headers: &HeaderMap) -> Result<Encoding, E2bError> {
    let text = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_refused = |of: &str| text.split(',').filter_map(|part| part.split_once(';')).any(|(name, q)| name.trim() == of && is_zero(q));
    let takes = |of: &str| text.split(',').any(|part| part.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(of)));
    match (takes("gzip") && !is_refused("gzip"), is_refused("identity") || (is_refused("*") && !takes("identity"))) {
        (true, _) => Ok(Encoding::Gzip),
        (false, false) => Ok(Encoding::Identity),
        (false, true) => Err(E2bError::new(StatusCode::NOT_ACCEPTABLE, "a file comes as it is or as gzip, and the client takes neither")),
    }
}

fn is_zero(quality: &str) -> bool {
    quality.trim().strip_prefix("q=").is_some_and(|q| q.parse::<f32>() == Ok(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_says_in_which_form_it_takes_a_file() {
        let encoding = |text: &str| super::encoding(&HeaderMap::from_iter([(ACCEPT_ENCODING, text.parse().unwrap())])).ok();
        assert_eq!(super::encoding(&HeaderMap::new()).ok(), Some(Encoding::Identity));
        assert_eq!(encoding("gzip, deflate"), Some(Encoding::Gzip));
        assert_eq!(encoding("identity"), Some(Encoding::Identity));
        assert_eq!(encoding("br"), Some(Encoding::Identity));
        assert_eq!(encoding("gzip;q=0"), Some(Encoding::Identity));
        assert_eq!(encoding("br, identity;q=0"), None);
        assert_eq!(encoding("*;q=0"), None);
    }
}
