-- Who may ask over the network, and what they were answered. A key stands here as its SHA-256 alone.
CREATE TABLE tenants (
    name    TEXT PRIMARY KEY,
    made_at INTEGER NOT NULL
) STRICT;

-- The agents that a tenant may use; the first one is meant where none is named.
CREATE TABLE tenant_agents (
    tenant   TEXT NOT NULL REFERENCES tenants (name),
    position INTEGER NOT NULL,
    agent    TEXT NOT NULL,
    PRIMARY KEY (tenant, position),
    UNIQUE (tenant, agent)
) STRICT;

CREATE TABLE keys (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL REFERENCES tenants (name),
    -- api, e2b
    kind       TEXT NOT NULL,
    sha256     TEXT NOT NULL UNIQUE,
    -- milliseconds since 1970
    made_at    INTEGER NOT NULL,
    used_at    INTEGER,
    revoked_at INTEGER
) STRICT;

-- What was answered to a request that bears a key of its own (Idempotency-Key), so that asking again does nothing twice.
CREATE TABLE answers (
    tenant   TEXT NOT NULL,
    key      TEXT NOT NULL,
    -- SHA-256 of the request
    request  TEXT NOT NULL,
    -- the server that is at it, or was
    server   TEXT NOT NULL,
    status   INTEGER,
    location TEXT,
    body     BLOB,
    made_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE INDEX answers_by_time ON answers (made_at);

-- Reports of runs, which hold what they printed, for a day.
CREATE TABLE reports (
    run     TEXT PRIMARY KEY,
    report  TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;

CREATE INDEX reports_by_time ON reports (made_at);
