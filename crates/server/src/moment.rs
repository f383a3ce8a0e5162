//! Moments as they are written: RFC 3339, in UTC with milliseconds.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::macros::format_description;

/// A moment as text.
pub(crate) fn rfc3339(moment: SystemTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    // The year 9999 is not reached: no session may go on for that long.
    OffsetDateTime::from(moment).format(format).unwrap_or_default()
}
