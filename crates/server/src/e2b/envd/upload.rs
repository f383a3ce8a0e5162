//! Files that a client sends: as they are, or as parts of a form.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::write::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use ringfence_evidence::{Digest, Event};
use ringfence_isolation::{FileError, OsText};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::entry::{name, path, text};
use super::files::check_user;
use super::{Call, query};
use crate::e2b::error::E2bError;
use crate::e2b::sandboxes::Sandbox;
use crate::serving::Serving;

/// Words beside a file: `X-Metadata-NAME: WORD`.
const METADATA: &str = "x-metadata-";
/// Bytes of a name, and of all names and words.
const LONGEST_NAME: usize = 246;
const MOST_METADATA: usize = 4096;
/// Files of one form.
const MOST_FILES: usize = 1000;

/// Takes one file or several; what is there is replaced.
pub(super) async fn receive(call: Call) -> Result<Response, E2bError> {
    let Call { serving, sandbox, request } = call;
    let asked = query(request.uri());
    check_user(&sandbox, asked.get("username"))?;
    let words = metadata(request.headers())?;
    let at = asked.get("path").filter(|path| !path.is_empty()).cloned();
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    let written = match kind.split(';').next().map(str::trim) {
        Some("multipart/form-data") => form(&serving, &sandbox, request, at, &words).await?,
        Some("application/octet-stream") => {
            let at = at.ok_or_else(|| E2bError::bad("path: a file that comes as it is needs a path in the query"))?;
            let is_gzip = is_gzip(request.headers())?;
            vec![plain(&serving, &sandbox, request.into_body(), &at, &words, is_gzip).await?]
        }
        _ => return Err(E2bError::bad("the body must be multipart/form-data or application/octet-stream")),
    };
    Ok((StatusCode::OK, axum::Json(written)).into_response())
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, E2bError> {
    match headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase()) {
        None => Ok(false),
        Some(encoding) if encoding == b"identity" => Ok(false),
        Some(encoding) if encoding == b"gzip" => Ok(true),
        Some(_) => Err(E2bError::bad("the content is encoded in a way that is not known here: gzip or identity")),
    }
}

/// Printable ASCII, in lower-case names; every upload replaces them all.
fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, E2bError> {
    let mut words = BTreeMap::new();
    for (field, value) in headers {
        let Some(name) = field.as_str().strip_prefix(METADATA) else { continue };
        let word = value.to_str().ok().filter(|word| word.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let word = word.ok_or_else(|| E2bError::bad(format!("metadata `{name}`: its value is not printable ASCII")))?;
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(E2bError::bad(format!("a name of metadata has 1 to {LONGEST_NAME} characters")));
        }
        words.insert(name.to_owned(), word.to_owned());
    }
    match words.iter().map(|(name, word)| name.len() + word.len()).sum::<usize>() > MOST_METADATA {
        true => Err(E2bError::bad(format!("all metadata of a file together has at most {MOST_METADATA} bytes"))),
        false => Ok(words),
    }
}

async fn plain(
    serving: &Arc<Serving>,
    sandbox: &Arc<Sandbox>,
    mut body: Body,
    at: &str,
    words: &BTreeMap<String, String>,
    is_gzip: bool,
) -> Result<Value, E2bError> {
    let mut writing = Writing::begin(serving, sandbox, at, words, is_gzip).await?;
    loop {
        let frame = tokio::time::timeout(serving.limits.body_pause, body.frame()).await;
        match frame.map_err(|_| E2bError::new(StatusCode::REQUEST_TIMEOUT, "the file did not come in time"))? {
            None => return writing.end(sandbox).await,
            Some(Err(_)) => return Err(E2bError::bad("the request breaks off")),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    writing.write(bytes).await?;
                }
            }
        }
    }
}

/// Where the query names a path it is that of the one file; else each file says its own.
async fn form(
    serving: &Arc<Serving>,
    sandbox: &Arc<Sandbox>,
    request: Request,
    at: Option<String>,
    words: &BTreeMap<String, String>,
) -> Result<Vec<Value>, E2bError> {
    let broken = |error: &dyn std::fmt::Display| E2bError::bad(format!("the form cannot be read: {error}"));
    let mut form = Multipart::from_request(request, serving).await.map_err(|error| broken(&error))?;
    let mut written = Vec::new();
    loop {
        let part = tokio::time::timeout(serving.limits.body_pause, form.next_field()).await;
        let part = part.map_err(|_| E2bError::new(StatusCode::REQUEST_TIMEOUT, "the form did not come in time"))?;
        let Some(mut part) = part.map_err(|error| broken(&error))? else { break };
        if part.name() != Some("file") {
            continue;
        }
        if written.len() >= MOST_FILES || (at.is_some() && !written.is_empty()) {
            return Err(E2bError::bad(format!("a form has one file where the query names a path, and {MOST_FILES} at most elsewhere")));
        }
        let target = at.clone().or_else(|| part.file_name().map(str::to_owned)).filter(|target| !target.is_empty());
        let target = target.ok_or_else(|| E2bError::bad("a file of the form has no path: neither in the query nor as its file name"))?;
        let mut writing = Writing::begin(serving, sandbox, &target, words, false).await?;
        loop {
            let chunk = tokio::time::timeout(serving.limits.body_pause, part.chunk()).await;
            let chunk = chunk.map_err(|_| E2bError::new(StatusCode::REQUEST_TIMEOUT, "the file did not come in time"))?;
            match chunk.map_err(|error| broken(&error))? {
                Some(bytes) => writing.write(bytes).await?,
                None => break,
            }
        }
        written.push(writing.end(sandbox).await?);
    }
    if written.is_empty() {
        return Err(E2bError::bad("the form holds no part of the name `file`"));
    }
    Ok(written)
}

/// A file that is being written, on a thread that may wait.
struct Writing {
    parts: mpsc::Sender<Bytes>,
    done: tokio::task::JoinHandle<Result<Written, E2bError>>,
    at: OsText,
    words: BTreeMap<String, String>,
}

/// What was written.
struct Written {
    bytes: u64,
    sha256: Digest,
}

impl Writing {
    async fn begin(
        serving: &Arc<Serving>,
        sandbox: &Sandbox,
        at: &str,
        words: &BTreeMap<String, String>,
        is_gzip: bool,
    ) -> Result<Self, E2bError> {
        let (files, at, words) = (sandbox.session.files()?, path(sandbox, at), words.clone());
        let kept = words.clone();
        let opened = tokio::task::spawn_blocking(move || files.write(&at, Some(&kept))).await;
        let (file, at) = opened.map_err(|panic| E2bError::from(serving.failed(&panic)))??;
        let (parts, received) = mpsc::channel(4);
        let name = at.escaped();
        let done = tokio::task::spawn_blocking(move || write_all(file, received, is_gzip).map_err(|error| fault(&error, name)));
        Ok(Self { parts, done, at, words })
    }

    /// Where writing has failed the end tells why.
    async fn write(&mut self, bytes: Bytes) -> Result<(), E2bError> {
        self.parts.send(bytes).await.unwrap_or_default();
        Ok(())
    }

    async fn end(self, sandbox: &Sandbox) -> Result<Value, E2bError> {
        drop(self.parts);
        let lost = |_| E2bError::new(StatusCode::INTERNAL_SERVER_ERROR, "the server could not do this");
        let Written { bytes, sha256 } = self.done.await.map_err(lost)??;
        sandbox.session.note(Event::FileReceived { path: text(&self.at), bytes, sha256 })?;
        let mut told = json!({ "path": text(&self.at), "name": name(&self.at), "type": "file" });
        if !self.words.is_empty() {
            told["metadata"] = json!(self.words);
        }
        Ok(told)
    }
}

fn fault(error: &std::io::Error, path: String) -> E2bError {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => FileError::Full { path }.into(),
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
            E2bError::bad(format!("the content for `{path}` is not gzip, or breaks off"))
        }
        _ => FileError::Failed { path, cause: error.to_string() }.into(),
    }
}

/// Writes what comes. What was compressed is unpacked on the way, and the file system holds it to its size.
fn write_all(file: File, mut received: mpsc::Receiver<Bytes>, is_gzip: bool) -> std::io::Result<Written> {
    let mut told = Told { file, digest: Sha256::new(), bytes: 0 };
    if is_gzip {
        let mut unpacking = GzDecoder::new(&mut told);
        while let Some(bytes) = received.blocking_recv() {
            unpacking.write_all(&bytes)?;
        }
        unpacking.try_finish()?;
    } else {
        while let Some(bytes) = received.blocking_recv() {
            told.write_all(&bytes)?;
        }
    }
    Ok(Written { bytes: told.bytes, sha256: Digest::from_bytes(told.digest.finalize().into()) })
}

/// What is written is counted and hashed.
struct Told {
    file: File,
    digest: Sha256,
    bytes: u64,
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
