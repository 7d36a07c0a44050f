-- +goose NO TRANSACTION

-- Versions that replaced others lately: what they replaced may have failed, and is then purged.

-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS versions_renewed;
CREATE INDEX CONCURRENTLY versions_renewed ON versions (finished_at) WHERE state = 'ready' AND number > 1;

-- +goose Down
DROP INDEX versions_renewed;
