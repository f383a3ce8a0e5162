-- Whether a promotion that is over has its receipt, so that those without one are found: it may be over by the clock alone.
ALTER TABLE promotions ADD COLUMN is_sealed INTEGER NOT NULL DEFAULT 0;

CREATE INDEX promotions_unsealed ON promotions (state) WHERE NOT is_sealed;
