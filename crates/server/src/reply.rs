//! What is answered when all is well: JSON in which no path of the host stands, and streams of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, StatusCode};
use http_body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::problem::Problem;
use crate::serving::Serving;

/// A value as JSON. Reports of runs quote paths of the home now and then; a client reads `HOME` in their place.
pub(crate) fn json(serving: &Serving, status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(value).map_err(|error| serving.failed(&error))?;
    let home = serde_json::to_string(&serving.home().root().to_string_lossy()).map_err(|error| serving.failed(&error))?;
    let text = text.replace(home.trim_matches('"'), "HOME");
    Ok(json_text(status, text))
}

/// A value as JSON, byte for byte as it is on record.
pub(crate) fn json_exact(serving: &Serving, status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    serde_json::to_string(value).map(|text| json_text(status, text)).map_err(|error| serving.failed(&error))
}

/// JSON that is text already.
pub(crate) fn json_text(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = (status, text.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The same response, saying where the thing is that it speaks of.
pub(crate) fn located(mut response: Response, place: &str) -> Response {
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// A body whose parts come over a channel; a part that failed ends the connection, so that nobody takes the rest for the whole.
#[derive(Debug)]
pub(crate) struct Parts(mpsc::Receiver<io::Result<Bytes>>);

impl Parts {
    /// The body, and where its parts are put.
    pub(crate) fn channel() -> (mpsc::Sender<io::Result<Bytes>>, Body) {
        let (sender, receiver) = mpsc::channel(4);
        (sender, Body::new(Self(receiver)))
    }
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|part| part.map(|bytes| bytes.map(Frame::data)))
    }
}
