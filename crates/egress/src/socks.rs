//! The server's half of SOCKS 5 (RFC 1928), as far as tunnels go.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// What is answered to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Granted = 0,
    Failed = 1,
    Refused = 2,
    HostUnreachable = 4,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A connection: to a host as it was sent, and a port.
    Connection(String, u16),
    /// Something that is not served, and was answered so.
    Other(&'static str),
}

/// Hears what is asked.
pub(crate) async fn hear(stream: &mut TcpStream) -> io::Result<Asked> {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await?;
    let mut methods = vec![0; greeting[1].into()];
    stream.read_exact(&mut methods).await?;
    if greeting[0] != VERSION || !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(Asked::Other("SOCKS 5 is served without authentication only"));
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    if request[..2] != [VERSION, CONNECT] {
        answer(stream, Reply::NoSuchCommand).await?;
        return Ok(Asked::Other("SOCKS serves connections to hosts only"));
    }
    let Some(host) = host(stream, request[3]).await? else {
        answer(stream, Reply::NoSuchAddress).await?;
        return Ok(Asked::Other("SOCKS knows no such kind of address"));
    };
    Ok(Asked::Connection(host, stream.read_u16().await?))
}

/// Bytes that are no text stand as replacement characters, which no host name holds.
async fn host(stream: &mut TcpStream, kind: u8) -> io::Result<Option<String>> {
    match kind {
        1 => {
            let mut address = [0; 4];
            stream.read_exact(&mut address).await?;
            Ok(Some(IpAddr::V4(Ipv4Addr::from(address)).to_string()))
        }
        3 => {
            let mut name = vec![0; stream.read_u8().await?.into()];
            stream.read_exact(&mut name).await?;
            Ok(Some(String::from_utf8_lossy(&name).into_owned()))
        }
        4 => {
            let mut address = [0; 16];
            stream.read_exact(&mut address).await?;
            Ok(Some(IpAddr::V6(Ipv6Addr::from(address)).to_string()))
        }
        _ => Ok(None),
    }
}

/// Answers; the address that the server uses is nobody's business.
pub(crate) async fn answer(stream: &mut TcpStream, reply: Reply) -> io::Result<()> {
    stream.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
