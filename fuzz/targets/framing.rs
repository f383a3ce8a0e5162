//! What comes over one connection of the server: where each message ends by our own reading, and by the library's that answers them. Both must find the same
//! requests, however the bytes are cut; ours may refuse more, and the library too, but none may find a request that the other one does not.
#![no_main]

// The crate itself would bring a database and much else that is not looked at here.
#[path = "../../crates/server/src/connection/framing.rs"]
mod framing;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use libfuzzer_sys::fuzz_target;

use framing::{Ambiguous, Framing};

/// As the server has it.
const HEAD_BYTES: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let ours = read_here(bytes);
    assert_eq!(followed(bytes, usize::from(*cut) + 1), ours.sound, "the same bytes in other pieces");
    let sent = if ours.sound < bytes.len() { [&bytes[..ours.sound], &[0]].concat() } else { bytes.to_vec() };
    let theirs = read_there(sent);
    assert!(theirs.len() <= ours.messages.len(), "{theirs:?}, {:?}", ours.messages);
    for (ours, theirs) in ours.messages.iter().zip(&theirs) {
        // As the library writes it: with a path where there is none, without what stands behind a `#`.
        let target = Uri::try_from(ours.target.as_slice()).map(|uri| uri.to_string());
        assert_eq!(target.ok(), Some(theirs.target.clone()));
        // The length of a body in chunks is that of its chunks alone.
        let is_same = theirs.body.is_none_or(|body| if theirs.is_chunked { body <= ours.body } else { body == ours.body });
        assert!(is_same, "{ours:?}, {theirs:?}");
    }
});

/// What our own reading finds.
struct Here {
    messages: Vec<Ours>,
    /// Bytes before the one that has no single meaning.
    sound: usize,
}

#[derive(Debug)]
struct Ours {
    target: Vec<u8>,
    /// Bytes between this head and the next.
    body: u64,
}

/// How many bytes are sound, in pieces of some length.
fn followed(bytes: &[u8], piece: usize) -> usize {
    let (mut framing, mut sound) = (Framing::new(2 * HEAD_BYTES), 0);
    for piece in bytes.chunks(piece) {
        match framing.follow(piece) {
            Ok(()) => sound += piece.len(),
            Err(Ambiguous { sound: more }) => {
                assert!(framing.is_broken());
                return sound + more;
            }
        }
    }
    sound
}

fn read_here(bytes: &[u8]) -> Here {
    let mut framing = Framing::new(2 * HEAD_BYTES);
    let (mut here, mut head) = (Here { messages: Vec::new(), sound: 0 }, Vec::new());
    for byte in bytes {
        let before = framing.heads();
        if framing.follow(&[*byte]).is_err() {
            break;
        }
        here.sound += 1;
        if framing.heads() > before {
            here.messages.push(Ours { target: target(&head), body: 0 });
            head.clear();
        } else if framing.is_in_head() {
            head.push(*byte);
        } else if let Some(last) = here.messages.last_mut() {
            last.body += 1;
        }
    }
    here
}

/// The second word of the first line.
fn target(head: &[u8]) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).find(|line| !line.is_empty());
    line.and_then(|line| line.split(|byte| *byte == b' ').nth(1)).unwrap_or_default().to_vec()
}

/// A request as the library reads it.
#[derive(Debug)]
struct Theirs {
    target: String,
    is_chunked: bool,
    /// Bytes of its body, where that was read to its end.
    body: Option<u64>,
}

fn read_there(sent: Vec<u8>) -> Vec<Theirs> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let found = found.clone();
        async move {
            let is_chunked = request.headers().contains_key("transfer-encoding");
            let target = request.uri().to_string();
            let number = {
                let mut found = found.lock().unwrap();
                found.push(Theirs { target, is_chunked, body: None });
                found.len() - 1
            };
            let body = request.into_body().collect().await;
            found.lock().unwrap()[number].body = body.ok().map(|body| body.to_bytes().len() as u64);
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let line = Line { sent, at: 0 };
    let connection = http1::Builder::new().max_buf_size(HEAD_BYTES).max_headers(64).half_close(false).serve_connection(line, service);
    run(connection);
    std::mem::take(&mut found.lock().unwrap())
}

/// Goes on until nothing moves any more.
fn run(connection: impl Future) {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(woken.clone());
    let mut connection = pin!(connection);
    while woken.0.swap(false, Ordering::AcqRel) {
        if connection.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
    }
}

/// A connection over which all has been sent, and which stays open; what is answered is not kept.
struct Line {
    sent: Vec<u8>,
    at: usize,
}

impl Read for Line {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let length = buffer.remaining().min(self.sent.len() - self.at);
        if length == 0 {
            return Poll::Pending;
        }
        buffer.put_slice(&self.sent[self.at..self.at + length]);
        self.at += length;
        Poll::Ready(Ok(()))
    }
}

impl Write for Line {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
