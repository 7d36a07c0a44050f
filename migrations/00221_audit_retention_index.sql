-- +goose NO TRANSACTION

-- What is old is found by its time, of all tenants.

-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS audit_age;
CREATE INDEX CONCURRENTLY audit_age ON audit (at);

-- +goose Down
DROP INDEX audit_age;
