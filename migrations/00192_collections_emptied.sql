-- A collection that was deleted is emptied in the background, some documents at a
-- time, whoever was at it.

-- +goose Up
ALTER TABLE collections ADD emptied_at timestamptz;
-- The owner sees all for a moment.
ALTER TABLE collections NO FORCE ROW LEVEL SECURITY;
UPDATE collections SET emptied_at = deleted_at WHERE deleted_at IS NOT NULL;
ALTER TABLE collections FORCE ROW LEVEL SECURITY;
CREATE INDEX collections_to_empty ON collections (deleted_at) WHERE deleted_at IS NOT NULL AND emptied_at IS NULL;
GRANT SELECT (emptied_at) ON collections TO sluice_system;

-- +goose Down
DROP INDEX collections_to_empty;
ALTER TABLE collections DROP emptied_at;
