//! How long an index is waited for, and how much of it is taken. A slow or endless body ends at one of these.

use std::time::Duration;

/// The most of everything that comes from an index or from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLimits {
    /// For a connection to stand.
    pub connect: Duration,
    /// Without a byte arriving.
    pub idle: Duration,
    /// For one answer about a package.
    pub metadata: Duration,
    /// For one file.
    pub file: Duration,
    /// Of one answer about a package.
    pub metadata_bytes: u64,
    /// Of one file.
    pub file_bytes: u64,
    /// Entries of one archive.
    pub archive_entries: u64,
    /// Of all entries of one archive, unpacked.
    pub archive_bytes: u64,
    /// Of all that is kept between runs.
    pub cache_bytes: u64,
    /// How long what an index said of a package counts as news.
    pub fresh: Duration,
    /// Connections from inside at once.
    pub connections: usize,
    /// Requests to an index at once.
    pub fetches: usize,
    /// Of everything that is fetched for one run.
    pub run_bytes: u64,
    /// Questions about packages that are asked outside for one run. (Each is a name that somebody inside chose.)
    pub questions: u64,
    /// Different files that are served to one run.
    pub files: usize,
    /// Different refusals that are told of one run; what is refused after that is refused in silence.
    pub refusals: usize,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(20),
            metadata: Duration::from_secs(30),
            file: Duration::from_secs(15 * 60),
            metadata_bytes: 64 << 20,
            file_bytes: 1 << 30,
            archive_entries: 100_000,
            archive_bytes: 4 << 30,
            cache_bytes: 64 << 30,
            fresh: Duration::from_secs(10 * 60),
            connections: 64,
            fetches: 8,
            run_bytes: 16 << 30,
            questions: 10_000,
            files: 20_000,
            refusals: 1000,
        }
    }
}
