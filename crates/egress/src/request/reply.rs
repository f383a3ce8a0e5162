//! A reply as the client gets it, looked through where a credential is for the place.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::exchange::Exchange;
use crate::request::body::{Counted, ReplyBody, Toward, text};
use crate::request::forward::{Decided, NoReply};
use crate::request::headers::{head_length, is_only, mask, strip, switch as set_switch};
use crate::request::scrub::Scrubber;
use crate::request::switched::Switched;

/// The reply as the client gets it: status, fields and body. The phrase beside the status is the host's own text, and stays behind.
pub(crate) fn receive(
    mut reply: Response<Incoming>,
    decided: &Decided,
    exchange: &Arc<Exchange>,
    is_head: bool,
) -> Result<(Response<ReplyBody>, Option<Switched>), NoReply> {
    exchange.replied(reply.status().as_u16());
    exchange.down(head_length("HTTP/1.1 200 \r\n".len(), reply.headers()))?;
    readable(reply.headers(), decided.masks.is_some())?;
    strip(reply.headers_mut());
    if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(reply, decided, exchange);
    }
    if let Some(masks) = &decided.masks {
        mask(reply.headers_mut(), masks);
        if !is_head {
            reply.headers_mut().remove(CONTENT_LENGTH);
        }
    }
    let (parts, body) = reply.into_parts();
    let scrubber = decided.masks.clone().map(Scrubber::new);
    let body = Counted::new(body, exchange.clone(), Toward::Client, scrubber).boxed_unsync();
    Ok((answer(parts.status, parts.headers, body), None))
}

/// Whether a body can be read: as it is, and in pieces at most. Looked at before anything is taken away.
fn readable(headers: &HeaderMap, is_looked_through: bool) -> Result<(), NoReply> {
    if !is_only(headers, &TRANSFER_ENCODING, "chunked") {
        return Err(NoReply::bad_gateway("the reply has a transfer encoding that nobody asked for"));
    }
    if is_looked_through && !is_only(headers, &CONTENT_ENCODING, "identity") {
        return Err(NoReply::bad_gateway("the reply is compressed although plain text was asked for: it cannot be looked through"));
    }
    Ok(())
}

fn answer(status: StatusCode, headers: HeaderMap, body: ReplyBody) -> Response<ReplyBody> {
    let mut answer = Response::new(body);
    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
    answer
}

fn switch(
    mut reply: Response<Incoming>,
    decided: &Decided,
    exchange: &Arc<Exchange>,
) -> Result<(Response<ReplyBody>, Option<Switched>), NoReply> {
    if !decided.is_websocket {
        return Err(NoReply::bad_gateway("the host changes the protocol, which nobody asked for"));
    }
    let switched = Switched::new(hyper::upgrade::on(&mut reply), exchange.clone());
    set_switch(reply.headers_mut());
    let (parts, _) = reply.into_parts();
    Ok((answer(parts.status, parts.headers, text(String::new())), Some(switched)))
}
