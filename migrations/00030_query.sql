-- What ending abandoned questions needs beside the tables.

-- +goose Up
-- A synchronous question whose worker died ends with a reason.
CREATE INDEX questions_abandoned ON questions (created_at) WHERE NOT async AND state IN ('queued', 'running');
-- An asker's jobs, newest first.
CREATE INDEX questions_jobs ON questions (tenant_id, key_id, id) WHERE async;

-- +goose Down
DROP INDEX questions_jobs, questions_abandoned;
