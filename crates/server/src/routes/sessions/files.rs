//! Files of a session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use ringfence_control::Session;
use ringfence_evidence::Event;
use ringfence_isolation::{FileChange, FileEntry, FileError, FileKind, Files, OsText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::output::{place, stream};
use super::{file_problem, refused, standing};
use crate::asked::{Asked, By, Filter, Name, Wanted};
use crate::bounded::Text;
use crate::moment::rfc3339;
use crate::problem::{Code, Problem};
use crate::reply::json as reply;
use crate::serving::Serving;
use crate::transfer;

/// How often a folder that is watched is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a stream says something.
const BREATHE: u32 = 150;

/// A path in a sandbox: what does not begin with `/` begins in the home.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathQuery {
    path: Text<1, 1024>,
}

/// A folder and how far down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    path: Option<Text<1, 1024>>,
    depth: Option<u32>,
}

/// A folder, with all below it or not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchQuery {
    path: Option<Text<1, 1024>>,
    #[serde(default)]
    recursive: bool,
}

/// A file or folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileView {
    /// Its path in the sandbox; bytes that are not UTF-8 are shown as well as they can be.
    path: String,
    /// `file`, `directory`, `link` (that leads nowhere) or `special`.
    kind: &'static str,
    /// Bytes.
    bytes: u64,
    /// Permission bits.
    mode: u32,
    /// Its owner's number in the sandbox.
    uid: u32,
    /// Its group's number in the sandbox.
    gid: u32,
    /// When its content was last changed, RFC 3339.
    modified_at: String,
    /// Where it leads, if it is a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Words beside it.
    metadata: BTreeMap<String, String>,
}

impl FileView {
    fn of(entry: &FileEntry) -> Self {
        let text = |path: &OsText| path.as_os_str().to_string_lossy().into_owned();
        let (seconds, nanos) = entry.modified;
        let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanos.min(999_999_999));
        Self {
            path: text(&entry.path),
            kind: match entry.kind {
                FileKind::File => "file",
                FileKind::Folder => "directory",
                FileKind::Link => "link",
                FileKind::Special => "special",
            },
            bytes: entry.bytes,
            mode: entry.mode & 0o7777,
            uid: entry.uid,
            gid: entry.gid,
            modified_at: rfc3339(std::time::UNIX_EPOCH.checked_add(since).unwrap_or(std::time::UNIX_EPOCH)),
            target: entry.target.as_ref().map(text),
            metadata: entry.metadata.clone(),
        }
    }
}

/// What is in a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileList {
    /// In the order of paths.
    files: Vec<FileView>,
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Written {
    /// Its path in the sandbox.
    path: String,
    /// Bytes.
    bytes: u64,
    /// Digest of its content.
    sha256: String,
}

/// Work on the files of a session, on a thread that may wait.
async fn with<T: Send + 'static>(
    serving: &Arc<Serving>,
    session: &Session,
    work: impl FnOnce(&Files) -> Result<T, FileError> + Send + 'static,
) -> Result<T, Problem> {
    let files = session.files().map_err(|error| refused(serving, error))?;
    serving.blocking(move |serving| work(&files).map_err(|error| file_problem(serving, &error))).await
}

fn note(serving: &Serving, session: &Session, act: &str, path: &OsText, to: Option<&OsText>) -> Result<(), Problem> {
    let text = |path: &OsText| path.as_os_str().to_string_lossy().into_owned();
    let event = Event::FileChanged { act: act.into(), path: text(path), to: to.map(text) };
    session.note(event).map_err(|error| refused(serving, error))
}

/// Fetch a file
///
/// Its bytes, to be saved and not shown; that they have left is on record.
#[utoipa::path(get, path = "/v1/sessions/{session}/files", operation_id = "fetch_file", tag = "files",
    params(("session" = String, Path, description = "The session"), ("path" = String, Query, description = "Its path in the sandbox", min_length = 1, max_length = 1024)),
    responses((status = 200, description = "The bytes", content_type = "application/octet-stream", body = Vec<u8>), (status = 403), (status = 422)))]
pub(super) async fn fetch(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(PathQuery { path }): Filter<PathQuery>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let path = OsText::from(path.0.as_str());
    let (file, entry) = with(&serving, &session, move |files| files.read(&path)).await?;
    Ok(transfer::send_whole(session, file, &entry))
}

/// Write a file
///
/// What is there is replaced, folders on the way are made. The body is the content as it is.
#[utoipa::path(put, path = "/v1/sessions/{session}/files", operation_id = "write_file", tag = "files",
    params(("session" = String, Path, description = "The session"), ("path" = String, Query, description = "Its path in the sandbox", min_length = 1, max_length = 1024)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is there", content_type = "application/json", body = ref("#/components/schemas/Written")),
        (status = 403), (status = 408), (status = 415), (status = 422), (status = 507)))]
pub(super) async fn write(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(PathQuery { path }): Filter<PathQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let kind = request.headers().get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.eq_ignore_ascii_case("application/octet-stream") {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            "a file is sent as it is",
            "send its bytes with `Content-Type: application/octet-stream`",
        ));
    }
    let taken = transfer::take_whole(&serving, &session, &OsText::from(path.0.as_str()), request.into_body()).await?;
    reply(&serving, StatusCode::OK, &Written { path: taken.path, bytes: taken.bytes, sha256: taken.sha256.to_string() })
}

/// Remove a file or folder
///
/// With all that is below it; a link goes, not what it leads to. What is not there is no error.
#[utoipa::path(delete, path = "/v1/sessions/{session}/files", operation_id = "remove_file", tag = "files",
    params(("session" = String, Path, description = "The session"), ("path" = String, Query, description = "Its path in the sandbox", min_length = 1, max_length = 1024)),
    responses((status = 204, description = "It is not there"), (status = 403), (status = 422)))]
pub(super) async fn remove(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(PathQuery { path }): Filter<PathQuery>,
) -> Result<StatusCode, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let path = OsText::from(path.0.as_str());
    let removed = path.clone();
    with(&serving, &session, move |files| files.remove(&removed)).await?;
    note(&serving, &session, "remove", &path, None)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tell of a file
#[utoipa::path(get, path = "/v1/sessions/{session}/files/stat", operation_id = "stat_file", tag = "files",
    params(("session" = String, Path, description = "The session"), ("path" = String, Query, description = "Its path in the sandbox", min_length = 1, max_length = 1024)),
    responses((status = 200, description = "What it is", content_type = "application/json", body = ref("#/components/schemas/FileView")), (status = 403), (status = 422)))]
pub(super) async fn stat(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(PathQuery { path }): Filter<PathQuery>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let entry = with(&serving, &session, move |files| files.stat(&OsText::from(path.0.as_str()))).await?;
    reply(&serving, StatusCode::OK, &FileView::of(&entry))
}

/// List a folder
#[utoipa::path(get, path = "/v1/sessions/{session}/files/list", operation_id = "list_files", tag = "files",
    params(("session" = String, Path, description = "The session"),
        ("path" = Option<String>, Query, description = "The folder; the home if not named", min_length = 1, max_length = 1024),
        ("depth" = Option<u32>, Query, description = "How many levels down", minimum = 1, maximum = 64)),
    responses((status = 200, description = "What is in it", content_type = "application/json", body = ref("#/components/schemas/FileList")), (status = 403), (status = 422)))]
pub(super) async fn list(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(ListQuery { path, depth }): Filter<ListQuery>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let depth = depth.unwrap_or(1);
    if !(1..=64).contains(&depth) {
        return Err(Problem::new(Code::BadQuery, format!("depth: `{depth}` is not possible"), "1 to 64"));
    }
    let path = OsText::from(path.as_ref().map_or(".", |path| &path.0));
    let entries = with(&serving, &session, move |files| files.list(&path, depth)).await?;
    reply(&serving, StatusCode::OK, &FileList { files: entries.iter().map(FileView::of).collect() })
}

/// A path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileBody {
    /// In the sandbox.
    #[schemars(regex(pattern = "^[^\\u0000]+$"))]
    path: Text<1, 4095>,
}

impl Wanted for FileBody {
    const MOST_BYTES: usize = 16 << 10;
}

/// Make a folder
///
/// And those on the way to it; 409 if something is there.
#[utoipa::path(post, path = "/v1/sessions/{session}/files/folder", operation_id = "make_folder", tag = "files",
    params(("session" = String, Path, description = "The session")),
    request_body(content = ref("#/components/schemas/FileBody"), content_type = "application/json"),
    responses((status = 201, description = "It is there", content_type = "application/json", body = ref("#/components/schemas/FileView")), (status = 403), (status = 507)))]
pub(super) async fn make(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    asked: Asked<FileBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let path = OsText::from(asked.body.path.0.as_str());
    let made = with(&serving, &session, move |files| files.make_folder(&path)).await?;
    note(&serving, &session, "make", &made.path, None)?;
    reply(&serving, StatusCode::CREATED, &FileView::of(&made))
}

/// From where to where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveBody {
    /// What is moved.
    #[schemars(regex(pattern = "^[^\\u0000]+$"))]
    from: Text<1, 4095>,
    /// Where to; a file that is there is replaced.
    #[schemars(regex(pattern = "^[^\\u0000]+$"))]
    to: Text<1, 4095>,
}

impl Wanted for MoveBody {
    const MOST_BYTES: usize = 16 << 10;
}

/// Move a file or folder
#[utoipa::path(post, path = "/v1/sessions/{session}/files/move", operation_id = "move_file", tag = "files",
    params(("session" = String, Path, description = "The session")),
    request_body(content = ref("#/components/schemas/MoveBody"), content_type = "application/json"),
    responses((status = 200, description = "It is at its new place", content_type = "application/json", body = ref("#/components/schemas/FileView")), (status = 403), (status = 507)))]
pub(super) async fn rename(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    asked: Asked<MoveBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let (from, to) = (OsText::from(asked.body.from.0.as_str()), OsText::from(asked.body.to.0.as_str()));
    let source = from.clone();
    let moved = with(&serving, &session, move |files| files.rename(&source, &to)).await?;
    note(&serving, &session, "move", &from, Some(&moved.path))?;
    reply(&serving, StatusCode::OK, &FileView::of(&moved))
}

/// Watch a folder
///
/// Events `create`, `write`, `remove`, `rename` and `chmod`, each with the name relative to the folder, until the client or the session goes away.
#[utoipa::path(get, path = "/v1/sessions/{session}/files/watch", operation_id = "watch_files", tag = "files",
    params(("session" = String, Path, description = "The session"),
        ("path" = Option<String>, Query, description = "The folder; the home if not named", min_length = 1, max_length = 1024),
        ("recursive" = Option<bool>, Query, description = "With all below it")),
    responses((status = 200, description = "What changes", content_type = "text/event-stream", body = String), (status = 403), (status = 422)))]
pub(super) async fn watch(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(WatchQuery { path, recursive }): Filter<WatchQuery>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let path = OsText::from(path.as_ref().map_or(".", |path| &path.0));
    let mut watch = with(&serving, &session, move |files| files.watch(&path, recursive)).await?;
    let files = session.files().map_err(|error| refused(&serving, error))?;
    let (place, (parts, response)) = (place(&serving)?, stream());
    tokio::spawn(async move {
        let _place = place;
        let mut quiet = 0;
        while !session.is_over() && !parts.is_closed() {
            let looking = files.clone();
            let looked = serving.blocking(move |serving| {
                let events = looking.changes(&mut watch).map_err(|error| file_problem(serving, &error))?;
                Ok((watch, events))
            });
            let Ok((back, events)) = looked.await else { return };
            watch = back;
            quiet = if events.is_empty() { quiet + 1 } else { 0 };
            let mut text: String = events.iter().map(|event| written(&event.name, event.change)).collect();
            if quiet >= BREATHE {
                quiet = 0;
                text = ":\n\n".into();
            }
            if !text.is_empty() && parts.send(Ok(Bytes::from(text))).await.is_err() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    Ok(response)
}

fn written(name: &OsText, change: FileChange) -> String {
    let word = match change {
        FileChange::Create => "create",
        FileChange::Write => "write",
        FileChange::Remove => "remove",
        FileChange::Rename => "rename",
        FileChange::Chmod => "chmod",
    };
    format!("event: {word}\ndata: {}\n\n", json!({ "name": name.as_os_str().to_string_lossy() }))
}
