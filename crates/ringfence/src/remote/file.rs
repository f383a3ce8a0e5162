//! A file of this host on its way to a server, read piece by piece as it is sent.

use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Bytes that are read at once.
const PIECE: u64 = 64 << 10;

/// The body of a request that is a file, of the length that it had at first: one that shrinks meanwhile breaks the request off.
#[derive(Debug)]
pub(super) struct FileBody {
    file: File,
    left: u64,
}

impl FileBody {
    /// All of a file.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let left = file.metadata()?.len();
        Ok(Self { file, left })
    }

    fn piece(&mut self) -> io::Result<Bytes> {
        let mut piece = vec![0; usize::try_from(self.left.min(PIECE)).unwrap_or_default()];
        self.file.read_exact(&mut piece)?;
        self.left -= piece.len() as u64;
        Ok(piece.into())
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready((self.left > 0).then(|| self.piece().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
