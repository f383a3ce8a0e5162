//! Answers questions for names inside: with an address of the loopback interface for a name that a rule is about, with "no such name" for any other.
//!
//! Nothing is asked outside: a question that goes nowhere carries nothing out.

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use ringfence_policy::HostName;
use tokio::net::UdpSocket;

use crate::shared::Shared;

/// The largest question that is read.
const MOST_BYTES: usize = 1232;
/// After an error of the socket's, which may well come again at once.
const PAUSE: Duration = Duration::from_millis(50);
/// Seconds for which an answer holds: the run's whole life, and no longer than that matters.
const LIFE: u32 = 3600;

/// Answers for as long as it is polled.
pub(crate) async fn answer(shared: Arc<Shared>, socket: UdpSocket) {
    let mut buffer = [0; MOST_BYTES];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let Some(reply) = reply(&shared, &buffer[..length]) {
            // Whoever asked may be gone.
            socket.send_to(&reply, from).await.map(drop).unwrap_or_default();
        }
    }
}

/// The reply to a question; none to what is no question.
fn reply(shared: &Shared, bytes: &[u8]) -> Option<Vec<u8>> {
    let question = Message::from_vec(bytes).ok()?;
    if question.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut reply = Message::response(question.metadata.id, question.metadata.op_code);
    reply.metadata.recursion_desired = question.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    let [query] = question.queries.as_slice() else {
        reply.metadata.response_code = ResponseCode::FormErr;
        return reply.to_vec().ok();
    };
    reply.add_query(query.clone());
    if question.metadata.op_code != OpCode::Query || query.query_class() != DNSClass::IN {
        reply.metadata.response_code = ResponseCode::NotImp;
        return reply.to_vec().ok();
    }
    let asked = query.name().to_ascii();
    match asked.parse::<HostName>().ok().filter(|name| shared.rules.is_known(name)) {
        None => {
            shared.refuse_name(asked.trim_end_matches('.'));
            reply.metadata.response_code = ResponseCode::NXDomain;
        }
        Some(name) if query.query_type() == RecordType::A => match shared.names.address_of(&name) {
            Some(address) => drop(reply.add_answer(Record::from_rdata(query.name().clone(), LIFE, RData::A(A(address))))),
            None => reply.metadata.response_code = ResponseCode::ServFail,
        },
        Some(_) => {} // there is the name, and nothing of that kind
    }
    reply.to_vec().ok()
}
