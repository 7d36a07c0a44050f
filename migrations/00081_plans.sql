-- Retrieval plans of tenants' own, and with a question the text of the plan that
-- it was asked with: it is answered by that one, whatever becomes of the plan.

-- +goose Up
CREATE TABLE plans (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    name        text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    body        text NOT NULL CHECK (octet_length(body) <= 65536), -- YAML
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);
SELECT sluice_protect('plans');
GRANT SELECT, INSERT, UPDATE, DELETE ON plans TO sluice_app;

ALTER TABLE questions ADD plan_text text NOT NULL DEFAULT ''; -- empty: of a plan that every worker has

-- +goose Down
ALTER TABLE questions DROP plan_text;
DROP TABLE plans;
