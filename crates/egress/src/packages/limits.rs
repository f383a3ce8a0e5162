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
    /// How long what an index said of a package counts as news.
    pub fresh: Duration,
    /// Connections from inside at once.
    pub connections: usize,
    /// Requests to an index at once.
    pub fetches: usize,
    /// Refusals that are told, and files that are served, each once.
    pub events: usize,
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
            fresh: Duration::from_secs(10 * 60),
            connections: 64,
            fetches: 8,
            events: 20_000,
        }
    }
}
