-- Who calls a language model for a step of a question holds a lease on the step while
-- the provider works, in place of a transaction that stays open.

-- +goose Up
CREATE TABLE llm_leases (
    tenant_id   uuid NOT NULL,
    question_id uuid NOT NULL,
    round       int NOT NULL,
    step        text NOT NULL,
    item        int NOT NULL,
    holder      uuid NOT NULL, -- the gateway's process
    call_id     uuid NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, question_id, round, step, item)
);
CREATE INDEX llm_leases_holder ON llm_leases (holder);
SELECT sluice_protect('llm_leases');
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_leases TO sluice_app;
GRANT SELECT (holder, expires_at), UPDATE (expires_at), DELETE ON llm_leases TO sluice_system;
CREATE POLICY system ON llm_leases TO sluice_system USING (true) WITH CHECK (true);

-- +goose Down
DROP TABLE llm_leases;
