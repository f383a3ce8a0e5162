//! One request to its host: decided, told, dialled or sent over the connection that is kept, and its reply passed on.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use ringfence_policy::Scheme;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::credential::Credential;
use crate::dial::{self, NoDial};
use crate::exchange::{Exchange, OutOfBytes, Plan};
use crate::reply_head::ReplyHead;
use crate::request::body::{Counted, ReplyBody, Toward};
use crate::request::headers;
use crate::request::mask::{Mask, masks_of};
use crate::request::reply::receive;
use crate::request::switched::Switched;
use crate::request::target::host_value;
use crate::rules::{Asked, Place};
use crate::shared::Shared;
use crate::witness::{RequestLine, Seen, Way};

/// How long a host may take to begin its reply.
const REPLY: Duration = Duration::from_secs(120);

/// Why there is no reply of the host's.
#[derive(Debug)]
pub(crate) enum NoReply {
    /// A rule is against it.
    Refused(String),
    /// It was tried.
    Failed(StatusCode, String),
    /// The same, and already told.
    Told(StatusCode, String),
}

impl NoReply {
    pub(crate) fn told(&self) -> (StatusCode, String) {
        match self {
            Self::Refused(reason) => (StatusCode::FORBIDDEN, reason.clone()),
            Self::Failed(status, reason) | Self::Told(status, reason) => (*status, reason.clone()),
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        matches!(self, Self::Told(..))
    }

    pub(crate) fn bad_gateway(reason: impl fmt::Display) -> Self {
        Self::Failed(StatusCode::BAD_GATEWAY, reason.to_string())
    }
}

impl From<NoDial> for NoReply {
    fn from(no: NoDial) -> Self {
        match no {
            NoDial::Refused(reason) => Self::Refused(reason),
            NoDial::Failed(reason) => Self::bad_gateway(reason),
        }
    }
}

impl From<OutOfBytes> for NoReply {
    fn from(out: OutOfBytes) -> Self {
        Self::Told(StatusCode::FORBIDDEN, out.to_string())
    }
}

/// A connection to a host. Its driver ends with it.
struct Kept {
    place: Place,
    address: SocketAddr,
    sender: SendRequest<Counted>,
    head: ReplyHead,
    _driver: Driver,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends the requests of one client, and keeps the connection to the last host.
pub(crate) struct Forwarder {
    shared: Arc<Shared>,
    kept: Mutex<Option<Kept>>,
}

/// A request that was decided.
pub(crate) struct Decided {
    place: Place,
    rule: String,
    credential: Option<String>,
    /// What its reply may not hold, where a credential is for the place.
    pub(crate) masks: Option<Arc<[Mask]>>,
    pub(crate) is_websocket: bool,
}

impl Forwarder {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, kept: Mutex::new(None) }
    }

    /// Forwards a request; answers with the reply, and with both connections where they are no longer HTTP's.
    pub(crate) async fn forward(
        &self,
        place: Place,
        way: Way,
        mut request: Request<Incoming>,
        line: &RequestLine,
    ) -> Result<(Response<ReplyBody>, Option<Switched>), NoReply> {
        self.shared.take_request().map_err(NoReply::Refused)?;
        let decided = self.decide(place, &mut request).map_err(NoReply::Refused)?;
        let (kept, exchange) = self.connect(&decided, way, line).await?;
        let first_line = line.method.len() + request.uri().to_string().len() + "  HTTP/1.1\r\n".len();
        exchange.up(headers::head_length(first_line, request.headers()))?;
        let sent = self.send(kept, request, &exchange).await.inspect_err(|no| exchange.ended_by(&no.told().1))?;
        let is_head = line.method == Method::HEAD.as_str();
        let reply = receive(sent, &decided, &exchange, is_head);
        reply.inspect_err(|no| exchange.ended_by(&no.told().1))
    }

    /// The rule, and the request as it goes on.
    fn decide(&self, place: Place, request: &mut Request<Incoming>) -> Result<Decided, String> {
        let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
        let asked = Asked { method: &method, path: &path };
        let rule = self.shared.rules.decide(&place, &asked)?.to_string();
        if !headers::is_only(request.headers(), &TRANSFER_ENCODING, "chunked") {
            return Err("the request has a transfer encoding beside `chunked`".to_owned());
        }
        let is_websocket = headers::is_websocket(request.method(), request.headers());
        headers::strip(request.headers_mut());
        let bound = self.bound(&place);
        let credential = headers::put_in(request.headers_mut(), &place, &asked, &bound)?;
        if !bound.is_empty() {
            if is_websocket {
                return Err("a WebSocket to a host with a credential cannot be looked through".to_owned());
            }
            headers::ask_for_plain(request.headers_mut());
        }
        let value = HeaderValue::from_str(&host_value(&place)).map_err(|_| "the host does not fit a header".to_owned())?;
        request.headers_mut().insert(HOST, value);
        if is_websocket {
            headers::switch(request.headers_mut());
        }
        let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = target.parse::<Uri>().map_err(|_| "the path is none".to_owned())?;
        Ok(Decided { place, rule, credential, masks: (!bound.is_empty()).then(|| masks_of(&bound)), is_websocket })
    }

    /// The credentials that are for a place.
    fn bound(&self, place: &Place) -> Vec<Credential> {
        let is_here = |credential: &&Credential| credential.binding.to.is_at(&place.host, place.port) && place.scheme == Scheme::Https;
        self.shared.credentials.iter().filter(is_here).cloned().collect()
    }

    /// The connection that is kept, or a new one; on record before it is used.
    async fn connect(&self, decided: &Decided, way: Way, line: &RequestLine) -> Result<(Kept, Arc<Exchange>), NoReply> {
        let place = &decided.place;
        let open = |address| {
            let plan = Plan {
                way,
                rule: decided.rule.clone(),
                host: &place.host,
                port: place.port,
                address,
                seen: Seen::Requests,
                request: Some(line.clone()),
                credential: decided.credential.clone(),
            };
            Exchange::open(&self.shared, plan).map_err(|error| NoReply::Refused(error.to_string()))
        };
        if let Some(kept) = self.kept.lock().await.take().filter(|kept| kept.place == *place && !kept.sender.is_closed()) {
            let exchange = open(kept.address)?;
            return Ok((kept, exchange));
        }
        let addresses = dial::addresses(&place.host, place.port, &*self.shared.resolver, &self.shared.rules.private).await?;
        let first = addresses.first().copied().ok_or_else(|| NoReply::bad_gateway("there is no address"))?;
        let exchange = open(first)?;
        let kept = self.dial(place, &addresses).await.inspect_err(|no| exchange.ended_by(&no.told().1))?;
        exchange.reached(kept.address);
        Ok((kept, exchange))
    }

    async fn dial(&self, place: &Place, addresses: &[SocketAddr]) -> Result<Kept, NoReply> {
        let unreachable = |cause: &dyn fmt::Display| NoReply::bad_gateway(format!("`{}` cannot be reached: {cause}", place.host));
        let (stream, address) = dial::connect(addresses).await.map_err(|no| unreachable(&NoReply::from(no).told().1))?;
        let (sender, driver, head) = match (place.scheme, &self.shared.interception) {
            (Scheme::Https, Some(interception)) => {
                let stream = interception.upstream.connect(&place.host, stream).await.map_err(|error| unreachable(&error))?;
                self.shake_hands(stream).await
            }
            (Scheme::Https, None) => return Err(NoReply::Refused("TLS is not intercepted in this run".to_owned())),
            (Scheme::Http | Scheme::Tcp, _) => self.shake_hands(stream).await,
        }
        .map_err(|error| unreachable(&error))?;
        Ok(Kept { place: place.clone(), address, sender, head, _driver: driver })
    }

    async fn shake_hands<S>(&self, stream: S) -> Result<(SendRequest<Counted>, Driver, ReplyHead), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream, head) = ReplyHead::bound(stream);
        let (sender, connection) = http1::Builder::new().max_buf_size(256 << 10).handshake(TokioIo::new(stream)).await?;
        let driven = async move {
            // Whoever waits for the reply is told of the error.
            connection.with_upgrades().await.unwrap_or_default();
        };
        Ok((sender, Driver(self.shared.spawn(driven)), head))
    }

    /// Sends, once more over a new connection where the kept one turns out to be closed.
    async fn send(&self, mut kept: Kept, request: Request<Incoming>, exchange: &Arc<Exchange>) -> Result<Response<Incoming>, NoReply> {
        let request = request.map(|body| Counted::new(body, exchange.clone(), Toward::Host, None));
        let reply = match try_send(&mut kept, request).await? {
            Ok(reply) => reply,
            Err((Some(request), _)) => {
                kept = self.dial(&kept.place, &[kept.address]).await?;
                try_send(&mut kept, request).await?.map_err(|(_, error)| NoReply::bad_gateway(error))?
            }
            Err((None, error)) => return Err(NoReply::bad_gateway(error)),
        };
        *self.kept.lock().await = Some(kept);
        Ok(reply)
    }
}

type Unsent = (Option<Request<Counted>>, hyper::Error);

/// Waits for the beginning of the reply, but not for ever.
async fn try_send(kept: &mut Kept, request: Request<Counted>) -> Result<Result<Response<Incoming>, Unsent>, NoReply> {
    let replied = async {
        // A connection that is closed by now says so when it is sent over, and gives the request back.
        kept.sender.ready().await.unwrap_or_default();
        kept.head.awaited();
        let replied = kept.sender.try_send_request(request).await;
        kept.head.begun();
        replied.map_err(|mut error| (error.take_message(), error.into_error()))
    };
    let late = |_| NoReply::Failed(StatusCode::GATEWAY_TIMEOUT, format!("no reply in {} s", REPLY.as_secs()));
    timeout(REPLY, replied).await.map_err(late)
}
