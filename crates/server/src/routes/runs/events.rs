//! The events of a run: as a list, or one by one as they happen, for whoever accepts `text/event-stream`.

use std::fs;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use ringfence_evidence::EVENTS_FILE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::follow::follow;
use super::seen;
use crate::asked::{By, Filter, Name};
use crate::problem::{Code, Problem};
use crate::reply::json_exact;
use crate::serving::Serving;

/// Events in one answer.
const MOST: usize = 1000;

/// Which events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

/// Events, in order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EventList {
    /// The events as they are on record: with their number (`seq`), times, the digest of the one before, and their name (`event`).
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    events: Vec<Box<RawValue>>,
    /// What to give as `after` for those that come after these; there are none yet if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// List or follow the events of a run
///
/// With `Accept: text/event-stream` they come one by one as they happen, until the run is over; `Last-Event-ID` is the number of the last one that was seen.
#[utoipa::path(get, path = "/v1/runs/{run}/events", operation_id = "list_run_events", tag = "runs",
    params(
        ("run" = String, Path, description = "The run"),
        ("after" = Option<u64>, Query, description = "Only those after the event of this number"),
        ("limit" = Option<usize>, Query, description = "At most so many; a stream has no limit", minimum = 1, maximum = 1000)),
    responses((status = 200, description = "The events", content(
        (ref("#/components/schemas/EventList") = "application/json"),
        (String = "text/event-stream")))))]
pub(super) async fn events(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(run): Name,
    Filter(query): Filter<EventQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = query.limit.unwrap_or(MOST);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::new(Code::BadQuery, format!("limit: `{limit}` is not possible"), format!("1 to {MOST}")));
    }
    let run = serving.blocking(move |serving| seen(serving, &caller, &run)).await?;
    let path = serving.home().runs().join(run.as_str()).join(EVENTS_FILE);
    if wants_stream(&headers) {
        return follow(&serving, run, path, last_seen(&headers)?.or(query.after));
    }
    let list = serving.blocking(move |serving| {
        let text = fs::read_to_string(&path).map_err(|error| serving.failed(&error))?;
        list(&text, query.after, limit).map_err(|error| serving.failed(&error))
    });
    json_exact(&serving, StatusCode::OK, &list.await?)
}

fn list(text: &str, after: Option<u64>, limit: usize) -> Result<EventList, serde_json::Error> {
    // A line that is being written has no end yet.
    let whole = text.rfind('\n').map_or("", |at| &text[..at]);
    let skipped = after.map_or(0, |after| usize::try_from(after).unwrap_or(usize::MAX).saturating_add(1));
    let mut lines = whole.lines().skip(skipped);
    let events = lines.by_ref().take(limit).map(|line| RawValue::from_string(line.to_owned())).collect::<Result<Vec<_>, _>>()?;
    let last = (skipped + events.len()).checked_sub(1).and_then(|last| u64::try_from(last).ok());
    Ok(EventList { next: last.filter(|_| lines.next().is_some()), events })
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    accepted.filter_map(|kind| kind.split(';').next()).any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The number of the last event that the client has seen.
pub(crate) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(Problem::new(
            Code::BadRequest,
            "the Last-Event-ID is not the number of an event",
            "send the `id` of the last event that was seen",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_where_the_one_before_stopped() {
        let text = "{\"seq\":0}\n{\"seq\":1}\n{\"seq\":2}\n{\"seq\":3";
        let told = |after, limit| serde_json::to_string(&list(text, after, limit).unwrap()).unwrap();
        assert_eq!(told(None, 2), r#"{"events":[{"seq":0},{"seq":1}],"next":1}"#);
        assert_eq!(told(Some(1), 2), r#"{"events":[{"seq":2}]}"#);
        assert_eq!(told(Some(2), 2), r#"{"events":[]}"#);
        assert_eq!(told(Some(u64::MAX), 2), r#"{"events":[]}"#);
        assert_eq!(serde_json::to_string(&list("{\"seq\":0", None, 9).unwrap()).unwrap(), r#"{"events":[]}"#);
    }
}
