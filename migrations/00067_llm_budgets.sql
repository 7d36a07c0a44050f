-- What language models cost a tenant, and what they may. Money is in billionths
-- of a US dollar, so that sums are exact. Days and months are UTC's.

-- +goose Up
-- Null is no limit.
ALTER TABLE tenants
    ADD llm_day_tokens    bigint CHECK (llm_day_tokens >= 0),
    ADD llm_month_tokens  bigint CHECK (llm_month_tokens >= 0),
    ADD llm_day_nanos     bigint CHECK (llm_day_nanos >= 0),
    ADD llm_month_nanos   bigint CHECK (llm_month_nanos >= 0),
    ADD llm_per_minute    int CHECK (llm_per_minute >= 0),
    ADD llm_at_once       int CHECK (llm_at_once >= 0);

ALTER TABLE llm_calls
    ADD nanos bigint NOT NULL DEFAULT 0,
    ADD cached boolean NOT NULL DEFAULT false;

-- A search is no question: what its calls cost is kept, their replies are not.
CREATE TABLE llm_search_calls (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    id             uuid NOT NULL,
    step           text NOT NULL,
    task           text NOT NULL,
    provider       text NOT NULL,
    model          text NOT NULL,
    input_tokens   int NOT NULL,
    output_tokens  int NOT NULL,
    nanos          bigint NOT NULL,
    cached         boolean NOT NULL,
    millis         double precision NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
SELECT sluice_protect('llm_search_calls');
GRANT SELECT, INSERT ON llm_search_calls TO sluice_app;

-- What was paid, by day.
CREATE TABLE llm_days (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    day            date NOT NULL,
    calls          bigint NOT NULL DEFAULT 0,
    cached         bigint NOT NULL DEFAULT 0,    -- calls that were answered from the cache
    input_tokens   bigint NOT NULL DEFAULT 0,
    output_tokens  bigint NOT NULL DEFAULT 0,
    nanos          bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, day)
);
SELECT sluice_protect('llm_days');
GRANT SELECT, INSERT, UPDATE ON llm_days TO sluice_app;

-- Calls in progress, with the most that they may cost, and those that ended
-- within the last minute, with nothing.
CREATE TABLE llm_reservations (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    id         uuid NOT NULL,
    began_at   timestamptz NOT NULL,
    until      timestamptz NOT NULL,             -- it counts no more from then on
    tokens     bigint NOT NULL,
    nanos      bigint NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
SELECT sluice_protect('llm_reservations');
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_reservations TO sluice_app;

-- +goose Down
DROP TABLE llm_reservations, llm_days, llm_search_calls;
ALTER TABLE llm_calls DROP nanos, DROP cached;
ALTER TABLE tenants DROP llm_day_tokens, DROP llm_month_tokens, DROP llm_day_nanos, DROP llm_month_nanos, DROP llm_per_minute, DROP llm_at_once;
