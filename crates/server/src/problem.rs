//! What a client is told when it does not get what it asked for: `application/problem+json` (RFC 9457), with a word that stays the same and a hint.
//!
//! A problem holds the client's own words and ours. Paths of the host, messages of the database and the like go to the operator's log.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

/// The word, the status and the title of each problem.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:ident, $title:literal;)+) => {
        /// What is wrong, as a word that clients can rely on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant),+ }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The status that goes with it.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }

            /// What it is, in a line.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    /// The head of the request is not one that can be answered.
    BadRequest = "bad_request", BAD_REQUEST, "the request cannot be read";
    /// The body is no JSON.
    BadJson = "bad_json", BAD_REQUEST, "the body is not JSON";
    /// A parameter of the query is not known, or does not read.
    BadQuery = "bad_query", BAD_REQUEST, "the query cannot be read";
    /// There is no key, or it opens nothing.
    Unauthorized = "unauthorized", UNAUTHORIZED, "a key is needed";
    /// The key is for another API.
    WrongKeyKind = "wrong_key_kind", FORBIDDEN, "this key is for another API";
    /// A page of another origin asks.
    ForeignOrigin = "foreign_origin", FORBIDDEN, "pages of other origins cannot ask";
    /// The tenant may not use the agent.
    AgentNotAllowed = "agent_not_allowed", FORBIDDEN, "this tenant cannot use that agent";
    /// The person may not decide about it.
    NotYoursToDecide = "not_yours_to_decide", FORBIDDEN, "that person cannot decide about this";
    /// Policy or the host does not allow it.
    PolicyRefused = "policy_refused", FORBIDDEN, "policy does not allow this";
    /// The sandbox's user may not do this with the file.
    FileDenied = "file_denied", FORBIDDEN, "the sandbox's user may not do this";
    /// There is no such thing, or it is another tenant's.
    NotFound = "not_found", NOT_FOUND, "there is no such thing here";
    /// The method is not one of this path.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "this path has other methods";
    /// The body came too slowly.
    BodyTooSlow = "body_too_slow", REQUEST_TIMEOUT, "the body came too slowly";
    /// What was asked does not go with how things stand.
    Conflict = "conflict", CONFLICT, "this cannot be done as things stand";
    /// The same request is being answered.
    IdempotencyInFlight = "idempotency_in_flight", CONFLICT, "the same request is being answered";
    /// A server stopped before it answered the same request.
    IdempotencyLost = "idempotency_lost", CONFLICT, "nobody knows what became of the same request";
    /// The body is too large.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "the body is too large";
    /// The body is not JSON by its header, or it is compressed.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "the body must be plain JSON";
    /// The host that was asked for is not this one.
    WrongHost = "wrong_host", MISDIRECTED_REQUEST, "this server is not that host";
    /// The body is JSON of another form.
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "the body is not of the form that is wanted";
    /// A value in the body is not possible.
    InvalidValue = "invalid_value", UNPROCESSABLE_ENTITY, "a value is not possible";
    /// The key stands for another request.
    IdempotencyMismatch = "idempotency_mismatch", UNPROCESSABLE_ENTITY, "that Idempotency-Key stands for another request";
    /// The agent may not run, or not with this profile.
    AgentRefused = "agent_refused", UNPROCESSABLE_ENTITY, "the agent may not do this now";
    /// The artifact may not go there.
    PromotionRefused = "promotion_refused", UNPROCESSABLE_ENTITY, "the artifact cannot be promoted like this";
    /// What was signed is no decision about this.
    DecisionRefused = "decision_refused", UNPROCESSABLE_ENTITY, "what was signed is no decision about this";
    /// The profile cannot be audited here.
    AuditRefused = "audit_refused", UNPROCESSABLE_ENTITY, "the profile cannot be audited here";
    /// Too many keys that open nothing.
    TooManyWrongKeys = "too_many_wrong_keys", TOO_MANY_REQUESTS, "too many keys that open nothing";
    /// Too much is under way.
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "too much is under way";
    /// The server is about to stop.
    Stopping = "stopping", SERVICE_UNAVAILABLE, "the server is about to stop";
    /// The sandbox's disk is full.
    NoRoom = "no_room", INSUFFICIENT_STORAGE, "the sandbox has no room left";
    /// Something failed on our side.
    Internal = "internal", INTERNAL_SERVER_ERROR, "something failed on the server";
}

/// A problem on its way to a client.
#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    detail: String,
    hint: String,
    retry_after: Option<u64>,
}

/// A problem as it is written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProblemBody {
    /// A name for this kind of problem, as a URI.
    #[serde(rename = "type")]
    kind: String,
    /// What kind of problem it is, in a line.
    title: String,
    /// The status of the response.
    status: u16,
    /// What is wrong this time.
    detail: String,
    /// The kind of problem, as a word that stays the same.
    code: String,
    /// What would help.
    hint: String,
}

impl Problem {
    /// A problem, with what is wrong this time and what would help.
    pub fn new(code: Code, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: hint.into(), retry_after: None }
    }

    /// Nothing of that name that this tenant could see: the same words whether or not another one has it.
    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no {what} `{}` here", shortened(name)), format!("list what there is of {what}s"))
    }

    /// A value that is not possible, and where it stands.
    pub fn value(field: &str, cause: impl std::fmt::Display, hint: impl Into<String>) -> Self {
        Self::new(Code::InvalidValue, format!("{field}: {cause}"), hint)
    }

    /// What failed on our side is told to the operator alone.
    pub fn internal() -> Self {
        Self::new(Code::Internal, "the server could not do this", "ask the operator: the log of the server says why")
    }

    /// The same, with how long to wait before asking again, seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What is wrong and what would help, in a line.
    pub fn in_words(&self) -> String {
        format!("{}; {}", self.detail, self.hint)
    }

    /// How long to wait before asking again, seconds.
    pub fn retry_seconds(&self) -> Option<u64> {
        self.retry_after
    }

    /// As it is written.
    pub fn body(&self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:ringfence:problem:{}", self.code.word()),
            title: self.code.title().to_owned(),
            status: self.code.status().as_u16(),
            detail: self.detail.clone(),
            code: self.code.word().to_owned(),
            hint: self.hint.clone(),
        }
    }
}

/// A client's word, with nothing in it that a log or a terminal would obey, and not longer than a line.
pub(crate) fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(100).flat_map(char::escape_debug).collect();
    if text.chars().count() > 100 { format!("{shown}…") } else { shown }
}

/// What a response is about, for the counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told(pub(crate) Code);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = serde_json::to_vec(&self.body()).unwrap_or_default();
        let mut response = (self.code.status(), text).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"ringfence\""));
        }
        response.extensions_mut().insert(Told(self.code));
        response
    }
}
