//! Whole files on their way into a sandbox and out of it: piece by piece, counted and hashed, and on record.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use ringfence_control::Session;
use ringfence_evidence::{Digest, Event};
use ringfence_isolation::{FileEntry, OsText};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::problem::{Code, Problem};
use crate::reply::Parts;
use crate::routes::session_problem;
use crate::serving::Serving;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// A file that was taken.
pub(crate) struct Taken {
    /// Its path in the sandbox.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: Digest,
}

fn text(path: &OsText) -> String {
    path.as_os_str().to_string_lossy().into_owned()
}

/// Answers with a file as it is. Its last piece goes once it is on record that it has left.
pub(crate) fn send_whole(session: Arc<Session>, file: File, entry: &FileEntry) -> Response {
    let (parts, body) = Parts::channel();
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_LENGTH, entry.bytes.into());
    let (path, bytes) = (text(&entry.path), entry.bytes);
    tokio::task::spawn_blocking(move || send(&session, file, bytes, path, &parts));
    response
}

/// A file that became shorter meanwhile breaks the response off.
fn send(session: &Session, mut file: File, bytes: u64, path: String, parts: &mpsc::Sender<io::Result<Bytes>>) {
    let (mut digest, mut held, mut left) = (Sha256::new(), Bytes::new(), bytes);
    while left > 0 {
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        if let Err(error) = file.read_exact(&mut piece) {
            return parts.blocking_send(Err(error)).unwrap_or_default();
        }
        digest.update(&piece);
        left -= piece.len() as u64;
        if !held.is_empty() && parts.blocking_send(Ok(held)).is_err() {
            return;
        }
        held = piece.into();
    }
    let sha256 = Digest::from_bytes(digest.finalize().into());
    let last = session.note(Event::FileSent { path, bytes, sha256 }).map(|()| held);
    // A client that has gone away is left.
    parts.blocking_send(last.map_err(|error| io::Error::other(error.to_string()))).unwrap_or_default();
}

/// Writes a body into a file of a sandbox; the file system of the sandbox holds it to its size.
pub(crate) async fn take_whole(serving: &Arc<Serving>, session: &Session, path: &OsText, mut body: Body) -> Result<Taken, Problem> {
    let files = session.files().map_err(|error| session_problem(serving, error))?;
    let path = path.clone();
    let opened = serving.blocking(move |serving| files.write(&path, None).map_err(|error| session_problem(serving, error.into())));
    let (file, path) = opened.await?;
    let (pieces, received) = mpsc::channel::<Bytes>(4);
    let writing = tokio::task::spawn_blocking(move || write_all(file, received));
    while let Some(frame) = tokio::time::timeout(serving.limits.body_pause, body.frame()).await.map_err(|_| too_slow())? {
        let frame = frame.map_err(|_| Problem::new(Code::BadRequest, "the body breaks off", "send it whole"))?;
        if let Ok(bytes) = frame.into_data()
            && pieces.send(bytes).await.is_err()
        {
            break; // writing has failed, and says why
        }
    }
    drop(pieces);
    let (bytes, sha256) = writing.await.map_err(|panic| serving.failed(&panic))?.map_err(|error| unwritten(serving, &path, &error))?;
    let event = Event::FileReceived { path: text(&path), bytes, sha256 };
    session.note(event).map_err(|error| session_problem(serving, error))?;
    Ok(Taken { path: text(&path), bytes, sha256 })
}

fn too_slow() -> Problem {
    Problem::new(Code::BodyTooSlow, "the file did not come in time", "send it without pauses")
}

fn unwritten(serving: &Serving, path: &OsText, error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Problem::new(
            Code::NoRoom,
            format!("no room for `{}`: the sandbox's disk limit is met", path.escaped()),
            "remove what is not needed, or ask for a profile with a larger `disk`",
        ),
        _ => serving.failed(error),
    }
}

fn write_all(mut file: File, mut received: mpsc::Receiver<Bytes>) -> io::Result<(u64, Digest)> {
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    while let Some(piece) = received.blocking_recv() {
        file.write_all(&piece)?;
        digest.update(&piece);
        bytes += piece.len() as u64;
    }
    Ok((bytes, Digest::from_bytes(digest.finalize().into())))
}
