//! Server-sent events, as a server of ours writes them: `id`, `event` and `data` in a line each, and a blank line.

use serde_json::Value;

/// The longest event that is read.
const LONGEST: usize = 8 << 20;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    /// Its name.
    pub(crate) name: String,
    /// What it says.
    pub(crate) data: Value,
}

/// Puts events together from the pieces in which they come.
#[derive(Debug, Default)]
pub(super) struct Events {
    rest: Vec<u8>,
}

impl Events {
    /// Takes a piece, and answers with the events that are whole by now. `None` if this cannot be a stream of events.
    pub(super) fn take(&mut self, piece: &[u8]) -> Option<Vec<ServerEvent>> {
        self.rest.extend_from_slice(piece);
        let mut whole = Vec::new();
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            whole.extend(read(std::str::from_utf8(&block).ok()?)?);
        }
        (self.rest.len() <= LONGEST).then_some(whole)
    }
}

/// One block of lines: an event, or a comment that says no more than that the server is there.
fn read(block: &str) -> Option<Option<ServerEvent>> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    match (field("event"), field("data")) {
        (Some(name), Some(data)) => Some(Some(ServerEvent { name: name.to_owned(), data: serde_json::from_str(data).ok()? })),
        (None, None) => Some(None),
        (Some(_), None) | (None, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_come() {
        let text = b":\n\nid: 0\nevent: started\ndata: {\"pid\":7}\n\nid: 1\nevent: stdout\ndata: {\"base64\":\"aGk=\"}\n\n";
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<ServerEvent> = text.chunks(size).flat_map(|piece| events.take(piece).unwrap()).collect();
            let names: Vec<&str> = found.iter().map(|event| event.name.as_str()).collect();
            assert_eq!((names.as_slice(), &found[1].data["base64"]), (["started", "stdout"].as_slice(), &Value::from("aGk=")), "{size}");
        }
    }

    #[test]
    fn what_is_no_stream_of_events_is_not_taken_for_one() {
        for text in ["event: x\n\n", "data: {}\n\n", "event: x\ndata: {\n\n"] {
            assert_eq!(Events::default().take(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Events::default().take(b"event: \xff\ndata: {}\n\n"), None);
        assert_eq!(Events::default().take(&vec![b'a'; LONGEST + 1]), None);
    }
}
