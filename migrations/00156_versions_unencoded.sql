-- The versions of a collection that are to be encoded, which are few.

-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX IF EXISTS versions_unencoded; -- one that was left half built
CREATE INDEX CONCURRENTLY versions_unencoded ON versions (collection_id, id) WHERE unencoded AND state = 'ready';

-- +goose Down
DROP INDEX versions_unencoded;
