-- Which searches and questions took long: what they asked, by which plan, and which
-- stages took how much of it. A tenant keeps its newest ones, for some days.

-- +goose Up
CREATE TABLE slow_queries (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    id             uuid NOT NULL,                 -- a question's own
    kind           text NOT NULL CHECK (kind IN ('search', 'ask', 'job')),
    collection_id  uuid NOT NULL,
    question       text NOT NULL,
    plan           text NOT NULL,
    millis         double precision NOT NULL,
    stages         jsonb NOT NULL,                -- [{"stage": "...", "ms": ...}]
    code           text NOT NULL DEFAULT '',      -- of its error
    trace          text NOT NULL DEFAULT '',      -- id
    at             timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX slow_queries_at ON slow_queries (at);
SELECT sluice_protect('slow_queries');
GRANT SELECT, INSERT, DELETE ON slow_queries TO sluice_app;
-- No text: operators see that a tenant waits, not for what.
GRANT SELECT (tenant_id, id, kind, plan, millis, stages, code, trace, at), DELETE ON slow_queries TO sluice_system;
CREATE POLICY system ON slow_queries TO sluice_system USING (true);

-- Why questions and versions failed, by code.
GRANT SELECT (reason_code, finished_at) ON questions TO sluice_system;
GRANT SELECT (reason_code) ON versions TO sluice_system;

-- +goose Down
REVOKE SELECT (reason_code) ON versions FROM sluice_system;
REVOKE SELECT (reason_code, finished_at) ON questions FROM sluice_system;
DROP TABLE slow_queries;
