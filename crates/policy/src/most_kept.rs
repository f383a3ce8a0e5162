//! How much each tenant of a server may keep in states, as the operator sets it.

use crate::limits::scaled;
use crate::profile::{Located, ProfileError};
use crate::raw::RawKept;

const UNITS: &[(&str, u64)] = &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const USUAL: MostKept = MostKept { count: 1000, bytes: 32 << 30 };

/// What each tenant of a server may keep in states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MostKept {
    /// How many states.
    pub count: u64,
    /// Bytes of all of them together.
    pub bytes: u64,
}

pub(crate) fn most_kept(located: &Located<'_>, raw: &RawKept) -> Result<MostKept, ProfileError> {
    let bytes = raw.max_bytes.as_ref().map(|text| {
        let wrong = || located.at(&text.span(), "is not a size", "write it such as `32GiB`");
        scaled(text.as_ref(), UNITS).ok_or_else(wrong)
    });
    let count = raw.max_count.as_ref().map_or(USUAL.count, |count| *count.as_ref());
    Ok(MostKept { count, bytes: bytes.transpose()?.unwrap_or(USUAL.bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::parse_settings;

    #[test]
    fn what_is_not_named_is_usual_and_what_does_not_read_is_refused_with_its_place() {
        let read = |text: &str| parse_settings("s", text).map(|settings| settings.state);
        assert_eq!(read("").unwrap(), USUAL);
        assert_eq!(read("[state]\nmax-count = 0\n").unwrap(), MostKept { count: 0, ..USUAL });
        assert_eq!(read("[state]\nmax-bytes = \"1.5TiB\"\n").unwrap(), MostKept { bytes: 3 << 39, ..USUAL });
        for text in
            ["max-bytes = \"lots\"", "max-bytes = 5", "max-bytes = \"-1GiB\"", "max-count = -1", "max-count = \"5\"", "max-states = 5"]
        {
            let error = read(&format!("[state]\n{text}\n")).unwrap_err();
            assert!(error.line == 2 && !error.fix.is_empty(), "{text}: {error:?}");
        }
    }
}
