-- +goose NO TRANSACTION

-- What ingestion did lately.

-- +goose Up
DROP INDEX IF EXISTS versions_finished; -- one that was left half built
CREATE INDEX CONCURRENTLY versions_finished ON versions (finished_at) WHERE state IN ('ready', 'failed');

-- +goose Down
DROP INDEX versions_finished;
