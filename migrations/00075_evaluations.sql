-- Evaluation reports, as `sluice eval` writes them, and what each question gave,
-- which is read only to compare two of them.

-- +goose Up
CREATE TABLE evaluations (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    id          uuid NOT NULL,
    name        text NOT NULL,
    notes       text NOT NULL DEFAULT '',
    key_id      uuid NOT NULL,               -- that stored it
    ran_at      timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    datasets    jsonb NOT NULL,              -- what lists show of the reports
    reports     jsonb NOT NULL,
    figures     jsonb,                       -- of each report's questions
    PRIMARY KEY (tenant_id, id)
);
SELECT sluice_protect('evaluations');
GRANT SELECT, INSERT, DELETE ON evaluations TO sluice_app;

-- +goose Down
DROP TABLE evaluations;
