-- The place in the target that a promotion is about (the name of a file in a folder): the same bytes may go to two.
ALTER TABLE promotions ADD COLUMN place TEXT NOT NULL DEFAULT '';

DROP INDEX promotions_under_way;

CREATE UNIQUE INDEX promotions_under_way ON promotions (artifact, target, place, coalesce(undoes, ''))
    WHERE state IN ('checking', 'waiting', 'applying');
