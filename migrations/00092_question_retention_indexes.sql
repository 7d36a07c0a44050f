-- +goose NO TRANSACTION

-- What is old is found by its time, of all tenants. Questions go on while these are
-- built.

-- +goose Up
DROP INDEX IF EXISTS questions_age, retrievals_age, webhook_deliveries_waiting; -- those that were left half built
CREATE INDEX CONCURRENTLY questions_age ON questions (created_at) WHERE state IN ('answered', 'failed', 'cancelled');
CREATE INDEX CONCURRENTLY retrievals_age ON retrievals (created_at) WHERE emptied_at IS NULL;
CREATE INDEX CONCURRENTLY webhook_deliveries_waiting ON webhook_deliveries (tenant_id, subject_id) WHERE state = 'waiting';

-- +goose Down
DROP INDEX webhook_deliveries_waiting, retrievals_age, questions_age;
