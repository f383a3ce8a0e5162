//! The loop that accepts connections, and what becomes of each until it is over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::Peer;
use super::line::{Line, Resetting};
use super::paced::Paced;
use super::peers::{Peers, Place};
use super::resting::Answering;
use super::whole::Watched;
use crate::serving::Serving;

/// How long to wait where a connection cannot be taken, for want of descriptors say.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// What connections are accepted with.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
    pub(crate) serving: Arc<Serving>,
}

/// Accepts until it is told to stop, and then waits until every connection is over.
pub(crate) async fn accept(listening: Listening, mut stop: watch::Receiver<bool>) {
    let limits = &listening.serving.limits;
    let peers = Peers::new(limits.connections, limits.connections_of_one_peer);
    let listening = Arc::new(listening);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listening.listener.accept() => accepted,
            _ = stop.wait_for(|is_asked| *is_asked) => break,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, address)) = accepted else {
            sleep(AFTER_FAILURE).await;
            continue;
        };
        // Whoever is one too many is told nothing: a reply would take as long as its reader.
        let Some(place) = peers.enter(address.ip()) else {
            listening.serving.metrics.count("connections_refused", "");
            continue;
        };
        let (listening, stop) = (listening.clone(), stop.clone());
        connections.spawn(async move {
            let _open = listening.serving.metrics.open_connection();
            serve(&listening, stream, Arc::new(place), address, stop).await;
        });
    }
    drop(listening);
    while connections.join_next().await.is_some() {}
}

async fn serve(listening: &Listening, stream: TcpStream, place: Arc<Place>, address: SocketAddr, stop: watch::Receiver<bool>) {
    // Where it cannot be set, replies come a little later.
    stream.set_nodelay(true).unwrap_or_default();
    match &listening.tls {
        None => answer(listening, stream, place, address, stop).await,
        Some(tls) => {
            let shaken = timeout(listening.serving.limits.handshake_time, tls.accept(stream)).await;
            if let Ok(Ok(stream)) = shaken {
                answer(listening, stream, place, address, stop).await;
            }
        }
    }
}

async fn answer<S>(listening: &Listening, stream: S, place: Arc<Place>, address: SocketAddr, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Resetting + Unpin + Send + 'static,
{
    let limits = &listening.serving.limits;
    let router = listening.router.clone();
    let line = Line::default();
    let stream = Paced::new(stream, line.clone(), limits);
    let answered_at = place.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(address.ip()));
        request.extensions_mut().insert(line.clone());
        request.extensions_mut().insert(answered_at.clone());
        let answering = Answering::on(&answered_at);
        let (parts, body) = request.into_parts();
        let (body, reading) = Watched::new(body);
        let answered = router.clone().oneshot(http::Request::from_parts(parts, axum::body::Body::new(body)));
        async move {
            let mut response = answered.await?;
            reading.mark(&mut response);
            Ok::<_, std::convert::Infallible>(response.map(|body| answering.until_told(body)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // From the end of an answer to the end of the next head. How long a head takes from its first byte is seen by `Paced`.
        .header_read_timeout(limits.idle_time + limits.head_time)
        .max_buf_size(limits.head_bytes)
        .max_headers(limits.head_fields)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let is_over = tokio::select! {
        served = connection.as_mut() => { drop(served); true }
        _ = stop.wait_for(|is_asked| *is_asked) => false,
        () = place.is_wanted() => false,
    };
    if !is_over {
        connection.as_mut().graceful_shutdown();
        // A connection that broke is over as well.
        connection.await.unwrap_or_default();
    }
}
