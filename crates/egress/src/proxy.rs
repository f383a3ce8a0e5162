//! The proxy inside: the first byte tells SOCKS 5 from HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::HostName;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::dial::NoDial;
use crate::request;
use crate::shared::Shared;
use crate::socks::{self, Asked, Reply};
use crate::tunnel::{self, Target};
use crate::witness::Way;

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves one connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, mut stream: TcpStream) {
    let mut first = [0];
    match timeout(PATIENCE, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == 5 => {
            serve_socks(shared, &mut stream).await.unwrap_or_default(); // whoever is gone need not be answered
        }
        Ok(Ok(1)) => request::serve_proxy(shared, stream).await,
        Ok(Ok(_) | Err(_)) | Err(_) => shared.take_request().unwrap_or_default(), // it counts all the same
    }
}

async fn serve_socks(shared: Arc<Shared>, stream: &mut TcpStream) -> io::Result<()> {
    let (host, port) = match timeout(PATIENCE, socks::hear(stream)).await {
        Ok(Ok(Asked::Connection(host, port))) => (host, port),
        Ok(Err(_)) | Err(_) => {
            // A client that goes away while it asks has not asked.
            shared.take_request().unwrap_or_default(); // it counts all the same
            return Ok(());
        }
        Ok(Ok(Asked::Other(reason))) => {
            shared.take_request().unwrap_or_default(); // it counts all the same
            shared.refuse(Way::Socks, "", None, reason, None);
            return Ok(());
        }
    };
    let Ok(name) = host.parse::<HostName>() else {
        shared.take_request().unwrap_or_default(); // it counts all the same
        shared.refuse(Way::Socks, &host, Some(port), "the host is not a host name", None);
        return socks::answer(stream, Reply::Refused).await;
    };
    let target = Target { host: name, port, way: Way::Socks };
    match tunnel::prepare(&shared, &target).await {
        Ok(ready) => {
            socks::answer(stream, Reply::Granted).await?;
            tunnel::serve(&shared, &target, stream, Vec::new(), ready).await;
            Ok(())
        }
        Err(NoDial::Refused(_)) => socks::answer(stream, Reply::Refused).await,
        Err(NoDial::Failed(why)) if why.contains("resolved") => socks::answer(stream, Reply::HostUnreachable).await,
        Err(NoDial::Failed(_)) => socks::answer(stream, Reply::Failed).await,
    }
}
