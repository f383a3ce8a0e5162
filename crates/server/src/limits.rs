//! How much of a stranger's a server takes, in bytes, counts and times. Each has one number, here.

use std::time::Duration;

/// The limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once from one address (of IPv6, from one /64).
    pub connections_of_one_peer: usize,
    /// Requests that are being answered at once.
    pub requests: usize,
    /// Sessions at once.
    pub sessions: usize,
    /// Runs, audits and promotions under way at once.
    pub work: usize,
    /// Those of one tenant.
    pub work_of_one_tenant: usize,
    /// Streams of events at once.
    pub streams: usize,
    /// Bytes of a head.
    pub head_bytes: usize,
    /// Header fields of a head.
    pub head_fields: usize,
    /// How long a head may take from its first byte, and the first one of a connection in all.
    pub head_time: Duration,
    /// How long a connection is kept on which nothing is asked any more. Where there are no more places, the one that has rested longest goes before that.
    pub idle_time: Duration,
    /// Bytes of bodies in memory, of all requests together.
    pub body_bytes_in_all: usize,
    /// How long a body may make no progress.
    pub body_pause: Duration,
    /// How long a body may take in all.
    pub body_time: Duration,
    /// How long a client may take nothing of what is sent to it, and how long a tunnel to a port goes on once one side of it has ended.
    pub write_pause: Duration,
    /// How long a TLS handshake may take.
    pub handshake_time: Duration,
    /// Wrong keys in a row from one address, before it has to wait.
    pub wrong_keys_of_one_peer: u32,
    /// How long one wrong key of an address counts.
    pub wrong_key_of_one_peer_every: Duration,
    /// Wrong keys in a row from everywhere.
    pub wrong_keys: u32,
    /// How long one of those counts.
    pub wrong_key_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            connections_of_one_peer: 1024,
            requests: 256,
            sessions: 256,
            work: 32,
            work_of_one_tenant: 24,
            streams: 64,
            head_bytes: 16 << 10,
            head_fields: 64,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(330), // the pools of E2B's clients keep theirs for 300 s
            body_bytes_in_all: 64 << 20,
            body_pause: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            write_pause: Duration::from_secs(30),
            handshake_time: Duration::from_secs(10),
            wrong_keys_of_one_peer: 10,
            wrong_key_of_one_peer_every: Duration::from_secs(6),
            wrong_keys: 100,
            wrong_key_every: Duration::from_millis(100),
        }
    }
}
