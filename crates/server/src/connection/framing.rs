//! Where each message of a connection begins and ends, read strictly before anybody else reads it.
//!
//! A library that is generous takes a bare line feed for a line end, or drops a length that stands beside another one; a proxy in front of this server may
//! read the same bytes otherwise, and one request then hides inside another. Here there is one reading: what has two is ended at that byte. The rest of the
//! connection is never read.

/// Bytes of a line that says how long a chunk is, with whatever is said of the chunk.
const CHUNK_LINE: usize = 256;
/// Bytes of the fields after the last chunk.
const TRAILERS: usize = 4 << 10;

/// Where in a message the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Head,
    Body(u64),
    ChunkLine,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Broken,
}

/// What the head says so far.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    lines: usize,
    length: Option<u64>,
    is_chunked: bool,
    is_old: bool,
}

/// Follows one connection.
#[derive(Debug)]
pub(super) struct Framing {
    at: At,
    head: Head,
    line: Vec<u8>,
    /// Bytes of the lines of this part.
    taken: usize,
    most_head: usize,
    heads: u64,
}

/// The byte at which a connection has no single meaning any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ambiguous {
    /// How many bytes before it are sound.
    pub(super) sound: usize,
}

impl Framing {
    /// A connection whose heads have at most so many bytes: more than the reader takes, who has a status for those that are too long.
    pub(super) fn new(most_head: usize) -> Self {
        Self { at: At::Head, head: Head::default(), line: Vec::new(), taken: 0, most_head, heads: 0 }
    }

    /// True from the first byte of a head to its last.
    pub(super) fn is_in_head(&self) -> bool {
        self.at == At::Head && self.taken > 0
    }

    /// How many heads were read to their end.
    pub(super) fn heads(&self) -> u64 {
        self.heads
    }

    /// True once nothing more is to be read.
    pub(super) fn is_broken(&self) -> bool {
        self.at == At::Broken
    }

    /// Follows the next bytes.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Result<(), Ambiguous> {
        let mut sound = 0;
        while sound < bytes.len() {
            match self.step(&bytes[sound..]) {
                Some(taken) => sound += taken,
                None => {
                    self.at = At::Broken;
                    return Err(Ambiguous { sound });
                }
            }
        }
        Ok(())
    }

    /// Takes some of the bytes; none if the first of them has no place here.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.at {
            At::Body(left) => Some(self.pass(bytes, left, At::Body, At::Head)),
            At::Chunk(left) => Some(self.pass(bytes, left, At::Chunk, At::ChunkEnd)),
            At::Head | At::ChunkLine | At::ChunkEnd | At::Trailers => self.take(*bytes.first()?),
            At::Broken => None,
        }
    }

    fn pass(&mut self, bytes: &[u8], left: u64, more: fn(u64) -> At, then: At) -> usize {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - taken as u64;
        self.at = if left == 0 { then } else { more(left) };
        taken
    }

    /// One byte of a line, which ends with both a carriage return and a line feed, and holds neither otherwise.
    fn take(&mut self, byte: u8) -> Option<usize> {
        self.taken += 1;
        let most = match self.at {
            At::Head => self.most_head,
            At::Trailers => TRAILERS,
            At::ChunkLine | At::ChunkEnd | At::Body(_) | At::Chunk(_) | At::Broken => CHUNK_LINE,
        };
        let is_after_return = self.line.last() == Some(&b'\r');
        let is_data = self.at == At::ChunkEnd && !matches!(byte, b'\r' | b'\n');
        if self.taken > most || is_data || is_after_return != (byte == b'\n') {
            return None;
        }
        if byte != b'\n' {
            self.line.push(byte);
            return Some(1);
        }
        let mut line = std::mem::take(&mut self.line);
        line.pop();
        self.end_line(&line).map(|()| 1)
    }

    fn end_line(&mut self, line: &[u8]) -> Option<()> {
        match self.at {
            At::Head => return self.head_line(line),
            At::ChunkLine => return self.chunk_line(line),
            At::ChunkEnd if line.is_empty() => self.go_to(At::ChunkLine),
            At::Trailers if line.is_empty() => self.next_message(),
            At::Trailers if is_field(line) => {}
            At::ChunkEnd | At::Trailers | At::Body(_) | At::Chunk(_) | At::Broken => return None,
        }
        Some(())
    }

    fn go_to(&mut self, at: At) {
        (self.at, self.taken) = (at, 0);
    }

    fn next_message(&mut self) {
        self.head = Head::default();
        self.go_to(At::Head);
    }

    fn head_line(&mut self, line: &[u8]) -> Option<()> {
        // A line that is empty before a request is passed over by every reader.
        if line.is_empty() && self.head.lines == 0 {
            return Some(());
        }
        if line.is_empty() {
            return self.end_head();
        }
        self.head.lines += 1;
        if self.head.lines == 1 {
            self.head.is_old = !line.ends_with(b" HTTP/1.1");
            return Some(());
        }
        self.field(line)
    }

    fn field(&mut self, line: &[u8]) -> Option<()> {
        let at = line.iter().position(|byte| *byte == b':').filter(|_| is_field(line))?;
        let (name, value) = (&line[..at], line[at + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = length(value).filter(|_| self.head.length.is_none())?;
            self.head.length = Some(length);
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.head.is_chunked || self.head.is_old || !value.eq_ignore_ascii_case(b"chunked") {
                return None;
            }
            self.head.is_chunked = true;
        }
        (self.head.length.is_none() || !self.head.is_chunked).then_some(())
    }

    fn end_head(&mut self) -> Option<()> {
        self.heads += 1;
        match (self.head.is_chunked, self.head.length) {
            (true, _) => self.go_to(At::ChunkLine),
            (false, None | Some(0)) => self.next_message(),
            (false, Some(length)) => {
                self.next_message();
                self.at = At::Body(length);
            }
        }
        Some(())
    }

    fn chunk_line(&mut self, line: &[u8]) -> Option<()> {
        let digits = line.split(|byte| *byte == b';').next()?;
        let is_size = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
        let size = std::str::from_utf8(digits).ok().filter(|_| is_size)?;
        match u64::from_str_radix(size, 16).ok()? {
            0 => self.go_to(At::Trailers),
            size => self.go_to(At::Chunk(size)),
        }
        Some(())
    }
}

/// A field has a name of plain characters right before its colon: a line that goes on from the one before has none.
fn is_field(line: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    line.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0 && line[..at].iter().all(is_plain))
}

fn length(value: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(text: &str) -> Result<At, usize> {
        let whole = {
            let mut framing = Framing::new(1000);
            framing.follow(text.as_bytes()).map(|()| framing.at).map_err(|ambiguous| ambiguous.sound)
        };
        let mut framing = Framing::new(1000);
        let single = text.as_bytes().iter().enumerate().find_map(|(at, byte)| framing.follow(&[*byte]).err().map(|_| at));
        assert_eq!(single.map_or(Ok(framing.at), Err), whole, "{text:?} in one piece and byte by byte");
        whole
    }

    #[test]
    fn messages_follow_each_other() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(follow(&get.repeat(2)), Ok(At::Head));
        assert_eq!(follow(&format!("\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nb{get}")), Ok(At::Head));
        assert_eq!(follow("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab"), Ok(At::Body(1)));
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding:  Chunked\r\n\r\n3;x=y\r\na\nb\r\n0\r\nt: 1\r\n\r\n";
        assert_eq!(follow(&format!("{chunked}{get}")), Ok(At::Head));
        assert_eq!(follow("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n"), Ok(At::Chunk(255)));
    }

    #[test]
    fn what_has_two_readings_is_ended() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\n";
        for fields in [
            "Content-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding: chunked, chunked\r\n\r\n",
            "Transfer-Encoding: gzip, chunked\r\n\r\n",
            "Transfer-Encoding: identity\r\n\r\n",
            "Transfer-Encoding: \r\n\r\n",
            "Content-Length: +3\r\n\r\n",
            "Content-Length: 3, 3\r\n\r\n",
            "Content-Length: 0x3\r\n\r\n",
            "Content-Length:\r\n\r\n",
            "Content-Length: 99999999999999999999\r\n\r\n",
            "Content-Length : 3\r\n\r\n",
            "X: a\r\n Content-Length: 3\r\n\r\n",
            "X: a\nContent-Length: 3\r\n\r\n",
            "X: a\rContent-Length: 3\r\n\r\n",
            "X\r\n\r\n",
            ": x\r\n\r\n",
        ] {
            assert!(follow(&format!("{head}{fields}")).is_err(), "{fields:?}");
        }
        assert!(follow("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        for body in
            ["\r\n", "x\r\n", "-1\r\n", "0x1\r\n", "1\na", "1\r\nab", "1\r\na\n", "1 \r\na\r\n", "0\r\n x\r\n", "1000000000000000\r\n"]
        {
            assert!(follow(&format!("{chunked}{body}")).is_err(), "{body:?}");
        }
        assert!(follow(&format!("{chunked}1;{}\r\n", "x".repeat(300))).is_err());
        assert!(follow(&format!("{chunked}0\r\n{}", "t: 1\r\n".repeat(1000))).is_err());
    }
}
