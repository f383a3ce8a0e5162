//! Serves the sockets of one run until it is closed.

use std::future::Future;
use std::io;
use std::net::{TcpListener as StdListener, UdpSocket as StdSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::layout::{DoorRole, DoorSocket, Layout};
use crate::packages::Index;
use crate::shared::{Shared, Terms, Totals};
use crate::{dns, proxy, tunnel};

/// Connections at once; more wait to be taken.
const CONNECTIONS: usize = 200;
/// Bytes that wait in a connection with a client, each way.
const WAITING: usize = 256 << 10;
/// After an accept that failed, most often for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The sockets of one run, served.
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    servers: Vec<JoinHandle<()>>,
}

impl Broker {
    /// Begins to serve. `sockets` are those of the layout, in its order; package connections are handed to `index`.
    pub fn open(runtime: &Handle, layout: Layout, sockets: Vec<OwnedFd>, terms: Terms, index: Option<Arc<Index>>) -> io::Result<Self> {
        let _inside = runtime.enter();
        let shared = Arc::new(Shared::new(terms, layout.names));
        if let Some(index) = &index {
            index.count_against(&shared.budget);
        }
        let (closing, closed) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut servers = Vec::new();
        for (DoorSocket { role, .. }, socket) in layout.sockets.into_iter().zip(sockets) {
            let (shared, closed, places) = (shared.clone(), closed.clone(), places.clone());
            servers.push(match (role, &index) {
                (DoorRole::Names, _) => runtime.spawn(until(closed, dns::answer(shared, datagrams(socket)?))),
                (DoorRole::Proxy, _) => {
                    runtime.spawn(accept(listener(socket)?, places, closed, move |stream| proxy::serve(shared.clone(), stream)))
                }
                (DoorRole::Direct, _) => {
                    runtime.spawn(accept(listener(socket)?, places, closed, move |stream| tunnel::serve_direct(shared.clone(), stream)))
                }
                (DoorRole::Index, Some(index)) => {
                    let index = index.clone();
                    runtime.spawn(accept(listener(socket)?, places, closed, move |stream| index.clone().serve(stream)))
                }
                (DoorRole::Index, None) => return Err(io::Error::other("there is no package index to serve")),
            });
        }
        Ok(Self { shared, closing, servers })
    }

    /// Ends every connection and waits until that is told.
    pub fn close(self, runtime: &Handle) -> Totals {
        self.closing.send(true).unwrap_or_default(); // no server is left to hear it
        for server in self.servers {
            runtime.block_on(server).unwrap_or_default(); // one that panicked has ended
        }
        runtime.block_on(self.shared.take_drivers().shutdown());
        self.shared.totals()
    }
}

fn listener(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(socket);
    // Those that are taken from it have the same. What waits in them is the host's memory, and left alone they grow to megabytes.
    rustix::net::sockopt::set_socket_send_buffer_size(&listener, WAITING)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, WAITING)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn datagrams(socket: OwnedFd) -> io::Result<UdpSocket> {
    let socket = StdSocket::from(socket);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

async fn until(mut closed: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = closed.wait_for(|is_closed| *is_closed) => {}
    }
}

/// Takes connections and serves each in a task of its own, which ends with this one.
async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    places: Arc<Semaphore>,
    closed: watch::Receiver<bool>,
    serve: impl Fn(TcpStream) -> F,
) {
    let mut connections = JoinSet::new();
    let taking = async {
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    stream.set_nodelay(true).unwrap_or_default(); // slower without, and nothing worse
                    let served = serve(stream);
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            while connections.try_join_next().is_some() {}
        }
    };
    until(closed, taking).await;
    connections.shutdown().await;
}
