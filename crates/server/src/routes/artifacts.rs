//! Artifacts by digest: their bytes, for whoever's run made them.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use ringfence_evidence::Digest;
use ringfence_store::{Artifacts, Caller, Index};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::{By, Filter, Name, NoFilter, named};
use crate::problem::Problem;
use crate::reply::Parts;
use crate::serving::{Serving, viewer};

/// Bytes that are read at once.
const PIECE: usize = 128 << 10;

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(fetch))
}

/// Fetch an artifact
///
/// The bytes, to be saved and not shown. They are hashed on their way: if they are not those of the digest, the response breaks off before its end.
#[utoipa::path(get, path = "/v1/artifacts/{digest}", operation_id = "fetch_artifact", tag = "artifacts",
    params(("digest" = String, Path, description = "Its digest")),
    responses((status = 200, description = "The bytes", content_type = "application/octet-stream", body = Vec<u8>)))]
async fn fetch(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(digest): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let (digest, file, bytes) = serving.blocking(move |serving| open(serving, &caller, &digest)).await?;
    let (parts, body) = Parts::channel();
    tokio::task::spawn_blocking(move || send(file, bytes, &digest, &parts));
    Ok(attachment(body, bytes))
}

fn attachment(body: Body, bytes: u64) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_LENGTH, bytes.into());
    response
}

fn open(serving: &Serving, caller: &Caller, name: &str) -> Result<(Digest, File, u64), Problem> {
    let digest: Digest = named("artifact", name)?;
    let mut index = Index::open(serving.home()).map_err(|error| serving.failed(&error))?;
    if digest.to_string() != name || index.made_of(&viewer(caller), &digest).map_err(|error| serving.failed(&error))?.is_empty() {
        return Err(Problem::not_found("artifact", name));
    }
    let file = Artifacts::of(serving.home()).open(&digest).map_err(|error| serving.failed(&error))?;
    let bytes = file.metadata().map_err(|error| serving.failed(&error))?.len();
    Ok((digest, file, bytes))
}

/// Sends the file piece by piece; the last piece goes once all of them together are what the digest says. A reader that has gone away is left.
fn send(mut file: File, bytes: u64, digest: &Digest, parts: &mpsc::Sender<io::Result<Bytes>>) {
    let (mut hasher, mut held, mut left) = (Sha256::new(), Bytes::new(), bytes);
    while left > 0 {
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        let read = file.read_exact(&mut piece);
        if let Err(error) = read {
            return parts.blocking_send(Err(error)).unwrap_or_default();
        }
        hasher.update(&piece);
        left -= piece.len() as u64;
        if !held.is_empty() && parts.blocking_send(Ok(held)).is_err() {
            return;
        }
        held = piece.into();
    }
    let last = match Digest::from_bytes(hasher.finalize().into()) == *digest {
        true => Ok(held),
        false => Err(io::Error::from(io::ErrorKind::InvalidData)),
    };
    parts.blocking_send(last).unwrap_or_default();
}
