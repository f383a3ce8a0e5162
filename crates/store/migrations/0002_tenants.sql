-- The tenant of a server that asked for a run; the command line has none.
ALTER TABLE runs ADD COLUMN tenant TEXT;

CREATE INDEX runs_by_tenant ON runs (tenant, run);
