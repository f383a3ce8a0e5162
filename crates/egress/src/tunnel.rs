//! A tunnel to one host and port, asked for by CONNECT, by SOCKS or by a connection to the address that stands for a name.
//!
//! Where the rules are about the name alone, the first bytes must be TLS for that name, and what is inside is not seen. Where they are about
//! requests, each of them is read, TLS or not.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::{HostName, Scheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::dial::{self, NoDial};
use crate::exchange::{Exchange, Plan};
use crate::relay;
use crate::request;
use crate::rules::{Look, Place, no_rule};
use crate::shared::Shared;
use crate::tls::{self, Hello};
use crate::witness::{Seen, Way};

/// How long a client may take to send its first bytes.
const FIRST_BYTES: Duration = Duration::from_secs(20);
/// How long a client that is refused may take: it is told in the language that it speaks.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where a tunnel leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: HostName,
    pub(crate) port: u16,
    pub(crate) way: Way,
}

/// What was made ready before the client is told that there is a tunnel.
#[derive(Debug)]
pub(crate) enum Ready {
    /// A connection to the host, and what is looked at before it is used.
    Dialled { upstream: TcpStream, exchange: Arc<Exchange>, look: Look },
    /// Nothing: each request is decided and dialled by itself.
    Requests,
}

/// Decides on a tunnel, and dials where its bytes are passed on as they are.
pub(crate) async fn prepare(shared: &Arc<Shared>, target: &Target) -> Result<Ready, NoDial> {
    let prepared = prepare_quietly(shared, target).await;
    if let Err(NoDial::Refused(reason) | NoDial::Failed(reason)) = &prepared {
        shared.refuse(target.way, target.host.as_str(), Some(target.port), reason, None);
    }
    prepared
}

async fn prepare_quietly(shared: &Arc<Shared>, target: &Target) -> Result<Ready, NoDial> {
    let Some(look) = shared.rules.look(&target.host, target.port, &shared.credentials) else {
        shared.take_request().map_err(NoDial::Refused)?;
        return Err(NoDial::Refused(format!("no rule allows {}:{}", target.host, target.port)));
    };
    if look == Look::Requests {
        shared.has_request().map_err(NoDial::Refused)?;
        return Ok(Ready::Requests);
    }
    shared.take_request().map_err(NoDial::Refused)?;
    let scheme = if look == Look::Opaque { Scheme::Tcp } else { Scheme::Https };
    let rule = shared.rules.allows(&target.host, target.port, scheme).map(ToString::to_string).unwrap_or_default();
    let addresses = dial::addresses(&target.host, target.port, &*shared.resolver, &shared.rules.private).await?;
    let plan = |address: SocketAddr| Plan {
        way: target.way,
        rule,
        host: &target.host,
        port: target.port,
        address,
        seen: if look == Look::Opaque { Seen::Nothing } else { Seen::Name },
        request: None,
        credential: None,
    };
    let first = addresses.first().copied().ok_or_else(|| NoDial::Failed("there is no address".to_owned()))?;
    let exchange = Exchange::open(shared, plan(first)).map_err(|error| NoDial::Refused(error.to_string()))?;
    match dial::connect(&addresses).await {
        Ok((upstream, address)) => {
            exchange.reached(address);
            Ok(Ready::Dialled { upstream, exchange, look })
        }
        Err(NoDial::Failed(cause) | NoDial::Refused(cause)) => {
            exchange.ended_by(&cause);
            Err(NoDial::Failed(format!("`{}` cannot be reached: {cause}", target.host)))
        }
    }
}

/// Serves a connection to an address that stands for a name.
pub(crate) async fn serve_direct(shared: Arc<Shared>, mut client: TcpStream) {
    let Ok(local) = client.local_addr() else { return };
    let Some(host) = shared.name_of(local) else {
        let reason = "no name has this address";
        shared.take_request().unwrap_or_default(); // it counts all the same
        shared.refuse(Way::Direct, &local.ip().to_string(), Some(local.port()), reason, None);
        return tell(&mut client, Vec::new(), reason).await;
    };
    let target = Target { host, port: local.port(), way: Way::Direct };
    match prepare(&shared, &target).await {
        Ok(ready) => serve(&shared, &target, &mut client, Vec::new(), ready).await,
        Err(NoDial::Refused(reason) | NoDial::Failed(reason)) => tell(&mut client, Vec::new(), &reason).await,
    }
}

/// Serves a tunnel to its end. `head` is what the client has sent already.
pub(crate) async fn serve(shared: &Arc<Shared>, target: &Target, client: &mut TcpStream, head: Vec<u8>, ready: Ready) {
    match ready {
        Ready::Dialled { mut upstream, exchange, look: Look::Opaque } => pass_on(client, head, &mut upstream, &exchange).await,
        Ready::Dialled { upstream, exchange, .. } => serve_named(shared, target, client, head, upstream, exchange).await,
        Ready::Requests => serve_requests(shared, target, client, head).await,
    }
}

/// TLS for the name is passed on as it is.
async fn serve_named(
    shared: &Arc<Shared>,
    target: &Target,
    client: &mut TcpStream,
    head: Vec<u8>,
    mut upstream: TcpStream,
    exchange: Arc<Exchange>,
) {
    let (head, hello) = first_bytes(client, head).await;
    match hello {
        Hello::Named(name) if is_for(target, name.as_deref()) => pass_on(client, head, &mut upstream, &exchange).await,
        Hello::Plain if shared.rules.allows(&target.host, target.port, Scheme::Http).is_some() => {
            exchange.ended_by("the client speaks plain HTTP: each request is decided by itself");
            drop((exchange, upstream));
            request::serve_fixed(shared.clone(), place(target, Scheme::Http), target.way, tls::Prefixed::new(head, client)).await;
        }
        hello => {
            let reason = not_for(target, &hello);
            exchange.ended_by(&reason);
            refuse(shared, target, client, head, &reason).await;
        }
    }
}

/// Every request is read, inside TLS of our own or plain.
async fn serve_requests(shared: &Arc<Shared>, target: &Target, client: &mut TcpStream, head: Vec<u8>) {
    let has = |scheme| shared.rules.allows(&target.host, target.port, scheme).is_some();
    let (head, hello) = first_bytes(client, head).await;
    match (hello, &shared.interception) {
        (Hello::Named(name), Some(interception)) if is_for(target, name.as_deref()) && has(Scheme::Https) => {
            match interception.accept(&target.host, tls::Prefixed::new(head, client)).await {
                Ok(inner) => request::serve_fixed(shared.clone(), place(target, Scheme::Https), target.way, inner).await,
                Err(error) => {
                    let reason = format!("the client does not accept the run's own certificate for `{}`: {error}", target.host);
                    shared.take_request().unwrap_or_default(); // it counts all the same
                    shared.refuse(target.way, target.host.as_str(), Some(target.port), &reason, None);
                }
            }
        }
        (Hello::Plain, _) if has(Scheme::Http) => {
            request::serve_fixed(shared.clone(), place(target, Scheme::Http), target.way, tls::Prefixed::new(head, client)).await;
        }
        (hello, _) => {
            shared.take_request().unwrap_or_default(); // it counts all the same
            refuse(shared, target, client, head, &not_for(target, &hello)).await;
        }
    }
}

async fn refuse(shared: &Arc<Shared>, target: &Target, client: &mut TcpStream, head: Vec<u8>, reason: &str) {
    shared.refuse(target.way, target.host.as_str(), Some(target.port), reason, None);
    tell(client, head, reason).await;
}

fn place(target: &Target, scheme: Scheme) -> Place {
    Place { scheme, host: target.host.clone(), port: target.port }
}

/// An address has no name to be sent.
fn is_for(target: &Target, name: Option<&str>) -> bool {
    match name {
        Some(name) => name.parse::<HostName>().is_ok_and(|name| name == target.host),
        None => target.host.address().is_some(),
    }
}

fn not_for(target: &Target, hello: &Hello) -> String {
    match hello {
        Hello::Named(Some(name)) if is_for(target, Some(name)) => no_rule(&place(target, Scheme::Https)),
        Hello::Named(Some(name)) => {
            format!("TLS is for `{}`, the tunnel for `{}`", crate::witness::printable(name), target.host)
        }
        Hello::Named(None) => format!("TLS names no host, the tunnel is for `{}`", target.host),
        Hello::Plain => no_rule(&place(target, Scheme::Http)),
        Hello::Nothing => "the client said nothing".to_owned(),
        Hello::Broken => "the first bytes are neither TLS nor HTTP".to_owned(),
    }
}

async fn pass_on(client: &mut TcpStream, head: Vec<u8>, upstream: &mut TcpStream, exchange: &Exchange) {
    let passed = async {
        exchange.up(head.len())?;
        upstream.write_all(&head).await?;
        relay::both(client, upstream, exchange).await
    };
    if let Err(error) = passed.await {
        exchange.ended_by(&error.to_string());
    }
}

/// Reads until the first bytes tell what they are.
async fn first_bytes(client: &mut TcpStream, head: Vec<u8>) -> (Vec<u8>, Hello) {
    let mut bytes = head;
    let reading = async {
        loop {
            match tls::hello(&bytes) {
                Some(hello) => return hello,
                None => match client.read_buf(&mut bytes).await {
                    Ok(0) | Err(_) => return if bytes.is_empty() { Hello::Nothing } else { Hello::Broken },
                    Ok(_) => {}
                },
            }
        }
    };
    let hello = timeout(FIRST_BYTES, reading).await.unwrap_or(Hello::Nothing);
    (bytes, hello)
}

/// Tells a client that it is refused, in the language that it speaks.
async fn tell(client: &mut TcpStream, head: Vec<u8>, reason: &str) {
    let (_, hello) = timeout(LAST_WORDS, first_bytes(client, head)).await.unwrap_or((Vec::new(), Hello::Nothing));
    let told: io::Result<()> = match hello {
        Hello::Named(_) => client.write_all(tls::UNRECOGNIZED_NAME).await,
        Hello::Plain => client.write_all(request::plain_refusal(reason).as_bytes()).await,
        Hello::Nothing | Hello::Broken => Ok(()),
    };
    told.unwrap_or_default(); // whoever is gone need not be told
}
