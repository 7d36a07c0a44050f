-- How often the worker of a version vanished, so that one that kills its
-- workers comes to an end.

-- +goose Up
ALTER TABLE versions ADD COLUMN losses int NOT NULL DEFAULT 0;
CREATE INDEX versions_lost ON versions (id) WHERE losses > 0 AND state IN ('queued', 'processing');

-- +goose Down
DROP INDEX versions_lost;
ALTER TABLE versions DROP COLUMN losses;
