//! Serves the requests of one connection.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::dial::NoDial;
use crate::request::body::{ReplyBody, text};
use crate::request::forward::{Forwarder, NoReply};
use crate::request::switched::Switched;
use crate::request::target::{self, authority};
use crate::rules::Place;
use crate::shared::Shared;
use crate::tunnel::{self, Ready, Target};
use crate::witness::{RequestLine, Way};

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(20);
/// Bytes of a head.
const HEAD_BYTES: usize = 64 << 10;

/// What a connection becomes after its last request.
#[derive(Debug)]
enum Next {
    Tunnel(Target, Ready),
    Switched(Switched),
}

/// Where the requests of a connection go.
#[derive(Debug)]
enum Mode {
    /// Where each of them says: this is a proxy.
    Proxy,
    /// To one place.
    Fixed(Place, Way),
}

struct Server {
    shared: Arc<Shared>,
    mode: Mode,
    forwarder: Forwarder,
    next: Mutex<Option<Next>>,
    is_asked: AtomicBool,
}

/// What is left when the requests are over: what comes next, the connection, and what was read of it already.
type Left<S> = (Option<Next>, S, Vec<u8>);

/// Serves a client of the proxy.
pub(crate) async fn serve_proxy(shared: Arc<Shared>, stream: TcpStream) {
    let (next, mut stream, head) = serve(shared.clone(), Mode::Proxy, stream).await;
    match next {
        Some(Next::Tunnel(target, ready)) => tunnel::serve(&shared, &target, &mut stream, head, ready).await,
        Some(Next::Switched(switched)) => switched.pass_on(stream, head).await,
        None => {}
    }
}

/// Serves a client whose connection leads to one place.
pub(crate) async fn serve_fixed<S: AsyncRead + AsyncWrite + Unpin + Send>(shared: Arc<Shared>, place: Place, way: Way, stream: S) {
    if let (Some(Next::Switched(switched)), stream, head) = serve(shared, Mode::Fixed(place, way), stream).await {
        switched.pass_on(stream, head).await;
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(shared: Arc<Shared>, mode: Mode, stream: S) -> Left<S> {
    let server = Arc::new(Server {
        forwarder: Forwarder::new(shared.clone()),
        shared,
        mode,
        next: Mutex::default(),
        is_asked: AtomicBool::new(false),
    });
    let answering = server.clone();
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| Box::pin(answer(answering.clone(), request))));
    // The connection is taken back afterwards, whatever it becomes.
    let served = std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let next = server.next.lock().unwrap_or_else(PoisonError::into_inner).take();
    let parts = connection.into_parts();
    if let Err(error) = &served {
        server.note_broken(error, parts.read_buf.is_empty());
    }
    if !server.is_asked.load(Ordering::Relaxed) {
        server.shared.take_request().unwrap_or_default(); // a connection that asks for nothing counts all the same
    }
    (next, parts.io.into_inner(), parts.read_buf.to_vec())
}

async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Result<Response<ReplyBody>, Infallible> {
    server.is_asked.store(true, Ordering::Relaxed);
    let line = line(&request);
    let (host, port) = asked_host(&request);
    let replied = match request.method() {
        &Method::CONNECT => server.connect(&request).await,
        _ => server.forward(request, &line).await,
    };
    Ok(replied.unwrap_or_else(|no| {
        let (status, reason) = no.told();
        if !no.is_told() {
            server.shared.refuse(server.way(), &host, port, &reason, Some(line));
        }
        refusal(status, &reason)
    }))
}

impl Server {
    fn way(&self) -> Way {
        match &self.mode {
            Mode::Proxy => Way::Http,
            Mode::Fixed(_, way) => *way,
        }
    }

    /// A tunnel: everything is decided, and dialled where that comes first, before the client is told.
    async fn connect(&self, request: &Request<Incoming>) -> Result<Response<ReplyBody>, NoReply> {
        let Mode::Proxy = &self.mode else { return Err(self.counted("a tunnel inside a tunnel is not made".to_owned())) };
        let (host, port) = target::of_connect(request.uri(), request.headers()).map_err(|reason| self.counted(reason))?;
        let target = Target { host, port, way: Way::Connect };
        let ready = tunnel::prepare(&self.shared, &target).await.map_err(|no| match no {
            NoDial::Refused(reason) => NoReply::Told(StatusCode::FORBIDDEN, reason),
            NoDial::Failed(reason) => NoReply::Told(StatusCode::BAD_GATEWAY, reason),
        })?;
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Next::Tunnel(target, ready));
        Ok(Response::new(text(String::new())))
    }

    async fn forward(&self, request: Request<Incoming>, line: &RequestLine) -> Result<Response<ReplyBody>, NoReply> {
        let place = match &self.mode {
            Mode::Proxy => target::of_proxied(request.uri(), request.headers()),
            Mode::Fixed(place, _) => target::of_tunnelled(place, request.uri(), request.headers()),
        };
        let place = place.map_err(|reason| self.counted(reason))?;
        let (reply, switched) = self.forwarder.forward(place, self.way(), request, line).await?;
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = switched.map(Next::Switched);
        Ok(reply)
    }

    /// What is refused before it is a request counts as one all the same.
    fn counted(&self, reason: String) -> NoReply {
        NoReply::Refused(self.shared.take_request().err().unwrap_or(reason))
    }

    /// What was no request: a head that is too long, too slow or none. A client that says nothing more has asked for nothing.
    fn note_broken(&self, error: &hyper::Error, is_silent: bool) {
        if error.is_parse() || (error.is_timeout() && !is_silent) {
            if self.is_asked.load(Ordering::Relaxed) {
                self.shared.take_request().unwrap_or_default(); // it counts all the same
            }
            self.shared.refuse(self.way(), "", None, &format!("not a request: {error}"), None);
        }
    }
}

fn line(request: &Request<Incoming>) -> RequestLine {
    RequestLine {
        method: crate::witness::printable(request.method().as_str()),
        path: crate::witness::printable(if request.method() == Method::CONNECT { "" } else { request.uri().path() }),
    }
}

/// The host as asked, for the record.
fn asked_host(request: &Request<Incoming>) -> (String, Option<u16>) {
    let header = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
    let text = request.uri().authority().map(http::uri::Authority::as_str).or(header).unwrap_or_default();
    match authority(text, 0) {
        Ok((host, port)) => (host.to_string(), (port > 0).then_some(port)),
        Err(_) => (text.to_owned(), None),
    }
}

fn told_text(reason: &str) -> String {
    format!("ringfence: {reason}\n")
}

fn refusal(status: StatusCode, reason: &str) -> Response<ReplyBody> {
    let mut reply = Response::new(text(told_text(reason)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

/// A refusal to a client whose requests are not read.
pub(crate) fn plain_refusal(reason: &str) -> String {
    let body = told_text(reason);
    format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
