-- Approvals and promotions: what was asked, who decided, what was done. Nothing here can be made anew, and nothing is removed.
CREATE TABLE promotions (
    id         TEXT PRIMARY KEY,
    artifact   TEXT NOT NULL,
    target     TEXT NOT NULL,
    undoes     TEXT REFERENCES promotions (id),
    -- checking, waiting, applying; applied, refused, failed, denied, expired, stale
    state      TEXT NOT NULL,
    -- what was asked, as canonical JSON
    request    TEXT NOT NULL,
    -- what was prepared and tested, as canonical JSON
    prepared   TEXT,
    -- why it ended as it did
    cause      TEXT NOT NULL DEFAULT '',
    made_at    INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

-- However often something is asked for, it is under way once.
CREATE UNIQUE INDEX promotions_under_way ON promotions (artifact, target, coalesce(undoes, ''))
    WHERE state IN ('checking', 'waiting', 'applying');

CREATE TABLE approvals (
    id          TEXT PRIMARY KEY,
    -- the promotion or the agent that it is for
    subject     TEXT NOT NULL,
    -- pending, approved; consumed, denied, expired, stale
    state       TEXT NOT NULL,
    -- what is approved, as canonical JSON, and its digest
    request     TEXT NOT NULL,
    digest      TEXT NOT NULL,
    quorum      INTEGER NOT NULL,
    -- milliseconds since 1970, and by the clock of one boot that nobody sets
    asked_at    INTEGER NOT NULL,
    decide_by   INTEGER NOT NULL,
    execute_for INTEGER NOT NULL,
    execute_by  INTEGER,
    settled_at  INTEGER,
    cause       TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX approvals_by_subject ON approvals (subject);

CREATE TABLE decisions (
    approval TEXT NOT NULL REFERENCES approvals (id),
    person   TEXT NOT NULL,
    key      TEXT NOT NULL,
    -- approve, deny
    verdict  TEXT NOT NULL,
    -- the signed statement
    envelope TEXT NOT NULL,
    -- the standing grant by which it was made
    standing TEXT REFERENCES standing (id),
    made_at  INTEGER NOT NULL,
    PRIMARY KEY (approval, person, verdict)
) STRICT;

CREATE TABLE standing (
    id       TEXT PRIMARY KEY,
    person   TEXT NOT NULL,
    key      TEXT NOT NULL,
    -- what it covers, as canonical JSON, and the signed statement
    covers   TEXT NOT NULL,
    envelope TEXT NOT NULL,
    uses     INTEGER NOT NULL CHECK (uses >= 0),
    made_at  INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

-- The latest time that was seen: a clock that is set back makes nothing young again.
CREATE TABLE clock (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    wall    INTEGER NOT NULL,
    boot    TEXT NOT NULL,
    running INTEGER NOT NULL
) STRICT;
