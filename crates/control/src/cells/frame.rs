//! Frames among what a cell prints. A frame is one or more pieces, each of at most [`PIECE_BYTES`] so that the kernel writes it into a pipe
//! at once, whoever else writes there: the byte 1E, the token of the execution, `+` (more follows) or `.` (the last), text, a newline. The
//! pieces' texts together are JSON. All other bytes are output.

use std::fmt::Write as _;
use std::io;

use serde::Deserialize;

/// `PIPE_BUF` of Linux: what is written at once is not torn apart.
const PIECE_BYTES: usize = 4096;
const MARK: u8 = 0x1e;

/// What tells the frames of one execution from all else that is printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// A token that nobody can guess; an error where the kernel has no random bytes.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if filled == bytes.len() { Ok(Self::of(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    pub(super) fn of(bytes: [u8; 16]) -> Self {
        let mut text = String::with_capacity(32);
        bytes.iter().for_each(|byte| {
            let _ = write!(text, "{byte:02x}");
        });
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What a worker says about the execution.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Frame {
    Started,
    /// What the cell wrote on standard error through the language itself, in its place among what it wrote on standard output.
    Stderr {
        text: String,
    },
    /// Representations by media type. Values that are JSON come as its text.
    Result {
        data: std::collections::BTreeMap<String, String>,
        is_main_result: bool,
    },
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    /// Nothing more comes on this stream. Said on both.
    Ended,
}

/// Bytes with the right token that are no frame: the worker is not to be believed any more, and the context has to be ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A piece without its end.
    #[error("the worker of the code context wrote a piece of a frame that does not end within {PIECE_BYTES} bytes; restart the context")]
    Piece,
    /// A frame that is too long.
    #[error(
        "the worker of the code context wrote a frame of more than {limit} bytes; write large results to a file, and restart the context"
    )]
    TooLong {
        /// How long one may be.
        limit: usize,
    },
    /// No frame, or none that may stand here.
    #[error("the worker of the code context wrote a frame that cannot be read ({why}); restart the context")]
    Unreadable {
        /// What was wrong.
        why: String,
    },
}

/// Output, and frames among it.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Output(Vec<u8>),
    Frame(Frame),
}

/// Finds the frames of one execution in one stream, chunk by chunk.
#[derive(Debug)]
pub(super) struct FrameReader {
    head: Vec<u8>,
    limit: usize,
    /// Bytes that may become a piece: fewer than `PIECE_BYTES`.
    held: Vec<u8>,
    /// The texts of the pieces so far: at most `limit`.
    frame: Vec<u8>,
}

impl FrameReader {
    /// For the frames with this token, of at most `limit` bytes each.
    pub(super) fn new(token: &Token, limit: usize) -> Self {
        let head = [&[MARK], token.as_str().as_bytes()].concat();
        Self { head, limit, held: Vec::new(), frame: Vec::new() }
    }

    /// The parts that are complete with this chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Part>, FrameError> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        let (mut parts, mut output, mut rest) = (Vec::new(), Vec::new(), &bytes[..]);
        while let Some(at) = rest.iter().position(|byte| *byte == MARK) {
            output.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            match self.piece(rest)? {
                Piece::None => {
                    output.push(MARK);
                    rest = &rest[1..];
                }
                Piece::Begun => {
                    self.held = rest.to_vec();
                    rest = &[];
                }
                Piece::Whole { bytes, frame } => {
                    rest = &rest[bytes..];
                    parts.extend((!output.is_empty() && frame.is_some()).then(|| Part::Output(std::mem::take(&mut output))));
                    parts.extend(frame.map(Part::Frame));
                }
            }
        }
        output.extend_from_slice(rest);
        parts.extend((!output.is_empty()).then_some(Part::Output(output)));
        Ok(parts)
    }

    /// What was held back in case it became a frame: output after all.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<Piece, FrameError> {
        let common = bytes.len().min(self.head.len());
        if bytes[..common] != self.head[..common] {
            return Ok(Piece::None);
        }
        let Some(kind) = bytes.get(self.head.len()) else { return Ok(Piece::Begun) };
        if !b"+.".contains(kind) {
            return Err(FrameError::Unreadable { why: "a piece is neither the last nor followed by more".to_owned() });
        }
        let Some(end) = bytes.iter().take(PIECE_BYTES).position(|byte| *byte == b'\n') else {
            return if bytes.len() < PIECE_BYTES { Ok(Piece::Begun) } else { Err(FrameError::Piece) };
        };
        let text = &bytes[self.head.len() + 1..end];
        if self.frame.len() + text.len() > self.limit {
            return Err(FrameError::TooLong { limit: self.limit });
        }
        self.frame.extend_from_slice(text);
        let frame = if *kind == b'.' { Some(parse(&std::mem::take(&mut self.frame))?) } else { None };
        Ok(Piece::Whole { bytes: end + 1, frame })
    }
}

enum Piece {
    None,
    Begun,
    Whole { bytes: usize, frame: Option<Frame> },
}

fn parse(text: &[u8]) -> Result<Frame, FrameError> {
    serde_json::from_slice(text).map_err(|error| FrameError::Unreadable { why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> FrameReader {
        FrameReader::new(&Token::of([0xab; 16]), 10_000)
    }

    fn piece(kind: char, text: &str) -> Vec<u8> {
        format!("\x1e{}{kind}{text}\n", "ab".repeat(16)).into_bytes()
    }

    fn joined(parts: Vec<Part>) -> Vec<Part> {
        parts.into_iter().fold(Vec::new(), |mut all, part| {
            match (all.last_mut(), part) {
                (Some(Part::Output(before)), Part::Output(more)) => before.extend(more),
                (_, part) => all.push(part),
            }
            all
        })
    }

    #[test]
    fn frames_are_found_wherever_the_chunks_are_cut() {
        let stderr = |text: &str| Frame::Stderr { text: text.to_owned() };
        let stream = [
            b"a\x1e\x1eabab\n".to_vec(),
            piece('.', r#"{"type":"started"}"#),
            b"no newline".to_vec(),
            piece('+', r#"{"type":"stderr","#),
            b"torn".to_vec(),
            piece('.', r#""text":"x"}"#),
            piece('.', r#"{"type":"ended"}"#),
            b"z\x1e".to_vec(),
        ]
        .concat();
        let expected = [
            Part::Output(b"a\x1e\x1eabab\n".to_vec()),
            Part::Frame(Frame::Started),
            Part::Output(b"no newlinetorn".to_vec()),
            Part::Frame(stderr("x")),
            Part::Frame(Frame::Ended),
            Part::Output(b"z\x1e".to_vec()),
        ];
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let mut reader = reader();
                let mut parts = Vec::new();
                for chunk in [&stream[..first], &stream[first..second], &stream[second..]] {
                    parts.extend(reader.push(chunk).unwrap());
                }
                parts.push(Part::Output(reader.finish()));
                assert_eq!(joined(parts), expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn another_token_is_output() {
        let forged = String::from_utf8(piece('.', r#"{"type":"ended"}"#)).unwrap().replace("ab", "ba");
        assert_eq!(reader().push(forged.as_bytes()), Ok(vec![Part::Output(forged.into_bytes())]));
    }

    #[test]
    fn what_has_the_token_and_is_no_frame_is_refused() {
        assert!(matches!(reader().push(&piece('.', "{")), Err(FrameError::Unreadable { .. })));
        assert!(matches!(reader().push(&piece('.', r#"{"type":"other"}"#)), Err(FrameError::Unreadable { .. })));
        assert!(matches!(reader().push(&piece('!', "")), Err(FrameError::Unreadable { .. })));
        assert_eq!(reader().push(&piece('.', &" ".repeat(PIECE_BYTES))), Err(FrameError::Piece));
        let mut flooded = reader();
        let mut push = || flooded.push(&piece('+', &" ".repeat(4000)));
        assert_eq!([push(), push(), push()], [Ok(vec![]), Ok(vec![]), Err(FrameError::TooLong { limit: 10_000 })]);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut reader = reader();
        let begun = piece('+', &" ".repeat(9000));
        let outcome = begun.chunks(7).try_for_each(|chunk| {
            assert!(reader.held.len() < PIECE_BYTES);
            reader.push(chunk).map(|_| ())
        });
        assert_eq!(outcome, Err(FrameError::Piece));
    }
}
