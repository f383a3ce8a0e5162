//! What a client of E2B is told when it does not get what it asked for: a status, and the same number with a message.

use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderName, HeaderValue, StatusCode};
use ringfence_control::SessionError;
use ringfence_isolation::FileError;
use ringfence_policy::Refusal;
use serde_json::json;

use crate::problem::Problem;

/// An error in the form of E2B.
#[derive(Debug)]
pub(crate) struct E2bError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The client shall not try again by itself.
    is_final: bool,
    retry_seconds: Option<u64>,
    more: Vec<(&'static str, serde_json::Value)>,
}

/// Says whether the client's own retrying makes sense.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

impl E2bError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), is_final: false, retry_seconds: None, more: Vec::new() }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn no_sandbox(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("sandbox `{}` was not found", id.escape_debug()))
    }

    /// As a proxy says it: the sandbox is gone, or never was.
    pub(crate) fn gone(id: &str) -> Self {
        let gone = Self::new(StatusCode::BAD_GATEWAY, "The sandbox was not found");
        gone.with("sandboxId", id).never_again()
    }

    /// As a proxy says it: nobody listens at the port.
    pub(crate) fn closed_port(id: &str, port: u16) -> Self {
        let closed = Self::new(StatusCode::BAD_GATEWAY, "The sandbox is running but port is not open");
        closed.with("sandboxId", id).with("port", port).never_again()
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    /// The client shall not try again by itself.
    pub(crate) fn never_again(mut self) -> Self {
        self.is_final = true;
        self
    }

    pub(crate) fn unsupported(what: &str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, format!("{what} are not part of this server")).never_again()
    }
}

impl IntoResponse for E2bError {
    fn into_response(self) -> Response {
        let mut body = json!({ "code": self.status.as_u16(), "message": self.message });
        for (name, value) in self.more {
            body[name] = value;
        }
        let mut response = (self.status, axum::Json(body)).into_response();
        if self.is_final {
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if let Some(seconds) = self.retry_seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The rule, who set it, and what would allow it.
fn in_words(refusal: &Refusal) -> String {
    format!("{} (rule of the {}); {}", refusal.rule, refusal.layer, refusal.hint)
}

impl From<SessionError> for E2bError {
    fn from(error: SessionError) -> Self {
        let status = match &error {
            SessionError::Refused(refusal) => return Self::bad(in_words(refusal)),
            SessionError::Gone => StatusCode::BAD_GATEWAY,
            SessionError::Busy { .. } | SessionError::Commands { .. } | SessionError::InputFull => StatusCode::TOO_MANY_REQUESTS,
            SessionError::NoCommand { .. } => StatusCode::NOT_FOUND,
            SessionError::File(_) | SessionError::Cell(_) => StatusCode::BAD_REQUEST,
            SessionError::NotBegun { .. } | SessionError::Run(_) | SessionError::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        match error {
            SessionError::File(error) => error.into(),
            SessionError::Run(_) | SessionError::Failed { .. } => {
                Self::new(status, "something failed on the server's side; its log says what")
            }
            // Why is on record: it may name what is the host's.
            SessionError::NotBegun { run, .. } => {
                Self::new(status, format!("the sandbox could not be made; the record of run {run} says why"))
            }
            error => Self::new(status, error.to_string()),
        }
    }
}

impl From<FileError> for E2bError {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Missing { .. } => StatusCode::NOT_FOUND,
            FileError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            FileError::Denied { .. } => StatusCode::FORBIDDEN,
            FileError::Exists { .. } => StatusCode::CONFLICT,
            FileError::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            FileError::Path { .. }
            | FileError::IsFolder { .. }
            | FileError::NotFolder { .. }
            | FileError::Special { .. }
            | FileError::Unfit { .. }
            | FileError::TooMany { .. } => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Problem> for E2bError {
    fn from(problem: Problem) -> Self {
        // What is not of the form that is wanted is a 400 to these clients.
        let status = match problem.code().status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        let mut error = Self::new(status, problem.in_words());
        error.retry_seconds = problem.retry_seconds();
        error
    }
}
