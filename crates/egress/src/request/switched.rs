//! A connection that is no longer HTTP's: a WebSocket. Bytes are counted and passed on.

use std::io;
use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::exchange::{Exchange, OutOfBytes};

/// Bytes of a copy.
const CHUNK: usize = 16 << 10;

/// The host's side, as soon as HTTP lets go of it.
#[derive(Debug)]
pub(crate) struct Switched {
    upstream: OnUpgrade,
    exchange: Arc<Exchange>,
}

impl Switched {
    pub(crate) fn new(upstream: OnUpgrade, exchange: Arc<Exchange>) -> Self {
        Self { upstream, exchange }
    }

    /// Passes bytes on until both sides have ended, or one has failed.
    pub(crate) async fn pass_on<S: AsyncRead + AsyncWrite + Unpin>(self, client: S, head: Vec<u8>) {
        let exchange = self.exchange;
        let passed = async {
            let upstream = TokioIo::new(self.upstream.await.map_err(io::Error::other)?);
            let (mut from_host, mut to_host) = tokio::io::split(upstream);
            let (mut from_client, mut to_client) = tokio::io::split(client);
            exchange.up(head.len())?;
            to_host.write_all(&head).await?;
            let up = flow(&mut from_client, &mut to_host, |bytes| exchange.up(bytes));
            let down = flow(&mut from_host, &mut to_client, |bytes| exchange.down(bytes));
            tokio::try_join!(up, down).map(drop)
        };
        if let Err(error) = passed.await {
            exchange.ended_by(&error.to_string());
        }
    }
}

async fn flow(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: impl Fn(usize) -> Result<(), OutOfBytes>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            read => {
                count(read)?;
                to.write_all(&buffer[..read]).await?;
            }
        }
    }
}
