//! Bytes both ways between two connections, counted. Much of it goes through the kernel alone (splice(2)).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use crate::exchange::{Exchange, OutOfBytes};

/// Bytes of one direction that are copied before a pipe is worth its making.
const SMALL: u64 = 64 << 10;
/// Bytes of a copy.
const CHUNK: usize = 16 << 10;
/// Bytes of a pipe; the kernel gives less to a user who has many.
const PIPE: usize = 256 << 10;

/// Passes bytes on until both sides have ended, or one has failed.
pub(crate) async fn both(client: &mut TcpStream, upstream: &mut TcpStream, exchange: &Exchange) -> io::Result<()> {
    let (from_client, to_client) = client.split();
    let (from_host, to_host) = upstream.split();
    let up = flow(from_client, to_host, exchange, |bytes| exchange.up(bytes));
    let down = flow(from_host, to_client, exchange, |bytes| exchange.down(bytes));
    tokio::try_join!(up, down).map(drop)
}

async fn flow(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    exchange: &Exchange,
    count: impl Fn(usize) -> Result<(), OutOfBytes>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut passed = 0;
    while passed < SMALL {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return end(to.as_ref());
        }
        count(read)?;
        to.write_all(&buffer[..read]).await?;
        passed += read as u64;
    }
    let room = exchange.pipe();
    match room.as_ref().and_then(|_| pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()) {
        Some(pipe) => splice_all(from.as_ref(), to.as_ref(), pipe, count).await,
        // Out of descriptors: slower, and the same.
        None => copy_all(from, to, buffer, count).await,
    }
}

async fn copy_all(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut buffer: Vec<u8>,
    count: impl Fn(usize) -> Result<(), OutOfBytes>,
) -> io::Result<()> {
    loop {
        match from.read(&mut buffer).await? {
            0 => return end(to.as_ref()),
            read => {
                count(read)?;
                to.write_all(&buffer[..read]).await?;
            }
        }
    }
}

/// The pipe is empty whenever it is filled, so that waiting means waiting for the connection.
async fn splice_all(
    from: &TcpStream,
    to: &TcpStream,
    (out, into): (OwnedFd, OwnedFd),
    count: impl Fn(usize) -> Result<(), OutOfBytes>,
) -> io::Result<()> {
    let size = rustix::pipe::fcntl_setpipe_size(&into, PIPE).unwrap_or(64 << 10);
    loop {
        let filled = from.async_io(Interest::READABLE, || pass(from, &into, size)).await?;
        if filled == 0 {
            return end(to);
        }
        count(filled)?;
        let mut left = filled;
        while left > 0 {
            left -= to.async_io(Interest::WRITABLE, || pass(&out, to, left)).await?;
        }
    }
}

fn pass(from: &impl AsFd, to: &impl AsFd, most: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(rustix::io::retry_on_intr(|| splice(from, None, to, None, most, flags))?)
}

/// Nothing more comes this way; the other way goes on.
fn end(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, Shutdown::Write) {
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
