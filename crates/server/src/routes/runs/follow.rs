//! Events as they happen, as a stream of server-sent events: read from the record, which is the one place where they are.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use ringfence_store::RunId;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::problem::{Code, Problem};
use crate::reply::Parts;
use crate::serving::Serving;

/// How often the record is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a stream says something, so that nobody on the way takes it for dead.
const BREATHE_EVERY: Duration = Duration::from_secs(15);
/// Bytes of the record that are read at once.
const PIECE: u64 = 256 << 10;

/// Where a reader of the record is.
struct Reader {
    path: PathBuf,
    offset: u64,
    rest: Vec<u8>,
    number: u64,
    skipped: Option<u64>,
    is_over: bool,
}

/// Answers with a stream that ends with the last event.
pub(super) fn follow(serving: &Arc<Serving>, run: RunId, path: PathBuf, after: Option<u64>) -> Result<Response, Problem> {
    let place = serving.streams.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Code::Overloaded, "too many streams are open", "list the events instead, or ask again in a while").retry_after(5)
    })?;
    let (parts, body) = Parts::channel();
    let (serving, reader) = (serving.clone(), Reader { path, offset: 0, rest: Vec::new(), number: 0, skipped: after, is_over: false });
    tokio::spawn(async move {
        let _place = place;
        tell(&serving, &run, reader, &parts).await;
    });
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Tells what comes, until the run is over or nobody listens.
async fn tell(serving: &Arc<Serving>, run: &RunId, mut reader: Reader, parts: &mpsc::Sender<io::Result<Bytes>>) {
    let mut spoke = Instant::now();
    loop {
        // Whether it is under way is asked before the record is read: what is written until then is read.
        let is_under_way = serving.under_way(run.as_str()).is_some();
        let Ok((next, text)) = serving.blocking(move |serving| reader.read(serving)).await else { return };
        reader = next;
        let is_quiet = text.is_empty();
        let text = if is_quiet && spoke.elapsed() >= BREATHE_EVERY { b":\n\n".to_vec() } else { text };
        if !text.is_empty() {
            spoke = Instant::now();
            if parts.send(Ok(Bytes::from(text))).await.is_err() {
                return;
            }
        }
        if reader.is_over || (is_quiet && (!is_under_way || parts.is_closed())) {
            return;
        }
        if is_quiet {
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Reader {
    /// The events that came since, as they are sent.
    fn read(mut self, serving: &Serving) -> Result<(Self, Vec<u8>), Problem> {
        let mut piece = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(PIECE).read_to_end(&mut piece)
        });
        self.offset += read.map_err(|error| serving.failed(&error))? as u64;
        self.rest.extend_from_slice(&piece);
        let mut text = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.tell(&line[..end], &mut text);
        }
        Ok((self, text))
    }

    fn tell(&mut self, line: &[u8], text: &mut Vec<u8>) {
        let number = self.number;
        self.number += 1;
        let line = String::from_utf8_lossy(line);
        let name = serde_json::from_str::<serde_json::Value>(&line).ok();
        let name = name.as_ref().and_then(|value| value["event"].as_str()).unwrap_or("event");
        self.is_over = name == "run_ended";
        if self.skipped.is_none_or(|skipped| number > skipped) {
            text.extend_from_slice(format!("id: {number}\nevent: {name}\ndata: {line}\n\n").as_bytes());
        }
    }
}
