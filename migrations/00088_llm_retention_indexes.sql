-- +goose NO TRANSACTION

-- What is old is found by its time, of all tenants. Tables of calls may be large:
-- calls go on while these are built.

-- +goose Up
DROP INDEX IF EXISTS llm_calls_age, llm_search_calls_age, llm_days_age; -- those that were left half built
CREATE INDEX CONCURRENTLY llm_calls_age ON llm_calls (created_at);
CREATE INDEX CONCURRENTLY llm_search_calls_age ON llm_search_calls (created_at);
CREATE INDEX CONCURRENTLY llm_days_age ON llm_days (day);

-- +goose Down
DROP INDEX llm_days_age, llm_search_calls_age, llm_calls_age;
