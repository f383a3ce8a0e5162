-- The index: everything in it can be read again from the folders of the runs.
CREATE TABLE runs (
    run        TEXT PRIMARY KEY,
    agent      TEXT NOT NULL,
    owner      TEXT NOT NULL,
    profile    TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at   TEXT NOT NULL,
    end_kind   TEXT NOT NULL,
    end_detail TEXT NOT NULL,
    evidence   TEXT NOT NULL
) STRICT;

CREATE TABLE artifacts (
    run    TEXT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
    path   TEXT NOT NULL,
    bytes  INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (run, path)
) STRICT;

CREATE INDEX artifacts_by_digest ON artifacts (sha256);
