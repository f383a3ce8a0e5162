//! Code contexts: a worker process that runs code cells one after another, with the state of the language kept between them.
//!
//! A worker is an argv ([`Language::command`]); requests are bytes for its standard input ([`Context::begin`]), and its standard output and
//! standard error are chunks that [`Context`] turns into events. Nothing here starts a process, waits, or knows a sandbox. All that a worker
//! says is untrusted: its frames carry a random token for one execution, so that what a cell prints is never taken for a frame by accident,
//! and a cell that forges frames on purpose forges its own results only.
//!
//! An interrupt is SIGINT to the worker's process group; a cell that ignores it is ended with the whole process, and so is a restart.

mod context;
mod frame;
mod language;
pub mod ndjson;
mod request;
mod result;
mod text;

pub use context::{CellEvent, Context, ContextError, Limits, Stream};
pub use frame::FrameError;
pub use language::{Language, UnknownLanguage};
pub use request::{CellRequest, MAX_REQUEST_BYTES, RequestError};
pub use result::CellResult;
