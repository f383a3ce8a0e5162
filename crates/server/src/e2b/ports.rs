//! Ports inside a sandbox, reached through the server: one connection inside for each request.

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ringfence_egress::ReplyHead;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::error::E2bError;
use super::sandboxes::Sandbox;
use crate::connection::{Line, Place};

/// How long connecting and the head of an answer may take.
const CONNECT: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(300);

/// Bytes that the head of an answer may have.
const MOST_OF_A_HEAD: usize = 64 << 10;

/// Fields that belong to one connection, and not to a request.
const OF_A_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Fields by which our own clients are known, which are nobody's business inside.
const OURS: &[&str] = &["x-api-key", "x-access-token", "e2b-traffic-access-token", "e2b-sandbox-id", "e2b-sandbox-port"];

/// Passes a request on to a port inside, and its answer back. Where both go on in another protocol, neither is held for longer than `half_open` once the
/// other has ended.
pub(super) async fn forward(sandbox: &Sandbox, port: u16, mut request: Request, half_open: Duration) -> Result<Response, E2bError> {
    let stream = connect(sandbox, port).await?;
    let (stream, head) = ReplyHead::bound(stream);
    let shaken = http1::Builder::new().max_buf_size(MOST_OF_A_HEAD).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|_| broken(sandbox, port))?;
    // It ends with either side.
    tokio::spawn(async move { connection.with_upgrades().await.unwrap_or_default() });
    let switched = upgrade_of(request.headers());
    let outside = switched.is_some().then(|| hyper::upgrade::on(&mut request));
    let line = request.extensions().get::<Line>().cloned().unwrap_or_default();
    let place = request.extensions().get::<Arc<Place>>().cloned();
    let host = sandbox.asked.masked_host.as_deref().map_or_else(|| format!("localhost:{port}"), |host| masked(host, port));
    prepare(&mut request, &host, switched.as_ref());
    let answered = timeout(HEAD, sender.send_request(request)).await;
    let mut answered = answered.map_err(|_| broken(sandbox, port))?.map_err(|_| broken(sandbox, port))?;
    head.begun();
    if let (StatusCode::SWITCHING_PROTOCOLS, Some(outside)) = (answered.status(), outside) {
        let inside = hyper::upgrade::on(&mut answered);
        line.go_opaque();
        place.iter().for_each(|place| place.go_opaque());
        tokio::spawn(async move {
            let _place = place; // as long as it goes on it is a connection like any other
            if let (Ok(outside), Ok(inside)) = (outside.await, inside.await) {
                tunnel(TokioIo::new(outside), TokioIo::new(inside), half_open).await;
            }
        });
        return Ok(answered.map(|_| Body::empty()).into_response());
    }
    match answered.status().is_informational() {
        true => Err(broken(sandbox, port)), // it switches although nobody asked it to
        false => Ok(dress(answered)),
    }
}

/// Passes bytes on in both ways. One side may end before the other, but not for ever.
async fn tunnel(outside: impl AsyncRead + AsyncWrite, inside: impl AsyncRead + AsyncWrite, half_open: Duration) {
    let ((from_outside, to_outside), (from_inside, to_inside)) = (split(outside), split(inside));
    let (mut inward, mut outward) = (pin!(pass_on(from_outside, to_inside)), pin!(pass_on(from_inside, to_outside)));
    let rest = tokio::select! {
        () = &mut inward => timeout(half_open, outward).await,
        () = &mut outward => timeout(half_open, inward).await,
    };
    rest.unwrap_or_default();
}

/// Whichever side breaks off ends it.
async fn pass_on(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    copy(&mut from, &mut to).await.map(drop).unwrap_or_default();
    to.shutdown().await.unwrap_or_default();
}

/// An answer as it is passed on: with one length, where it came with two.
fn dress(mut answered: http::Response<hyper::body::Incoming>) -> Response {
    if answered.headers().contains_key(TRANSFER_ENCODING) {
        answered.headers_mut().remove(CONTENT_LENGTH);
    }
    OF_A_CONNECTION.iter().for_each(|name| drop(answered.headers_mut().remove(*name)));
    answered.map(Body::new).into_response()
}

fn broken(sandbox: &Sandbox, port: u16) -> E2bError {
    E2bError::new(StatusCode::BAD_GATEWAY, "what listens at the port does not speak HTTP, or broke off")
        .with("sandboxId", sandbox.id())
        .with("port", port)
        .never_again()
}

/// A connection made from inside: the socket is one of the sandbox's own network.
async fn connect(sandbox: &Sandbox, port: u16) -> Result<TcpStream, E2bError> {
    let socket = sandbox.session.socket(port).await?;
    let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(socket));
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connected = timeout(CONNECT, socket.connect(target)).await;
    connected.ok().and_then(Result::ok).ok_or_else(|| E2bError::closed_port(sandbox.id(), port))
}

/// The protocol to which a client wants to switch.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers
        .get(CONNECTION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade")));
    headers.get(UPGRADE).filter(|_| asks).cloned()
}

/// The host that a client wants programs to see, for the port that is asked for.
pub(super) fn masked(host: &str, port: u16) -> String {
    host.replace("${PORT}", &port.to_string())
}

/// A request as what listens inside sees it.
fn prepare(request: &mut Request, host: &str, switched: Option<&HeaderValue>) {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    let headers = request.headers_mut();
    OF_A_CONNECTION.iter().chain(OURS).for_each(|name| drop(headers.remove(*name)));
    if let Some(protocol) = switched {
        headers.insert(UPGRADE, protocol.clone());
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    if let Some(host) = headers.get(HOST).cloned() {
        headers.insert(HeaderName::from_static("x-forwarded-host"), host);
    }
    if let Ok(host) = HeaderValue::from_str(host) {
        headers.insert(HOST, host);
    }
}
