//! A moment in words: RFC 3339 in UTC with milliseconds.

use time::OffsetDateTime;
use time::macros::format_description;

/// Milliseconds since 1970, in words.
pub fn in_words(millis: i64) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    moment.format(format).unwrap_or_default()
}
