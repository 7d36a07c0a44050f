-- Sessions of people who signed in (00240): what API keys are for programs. Only the hash of a session's secret is kept.

-- +goose Up
CREATE TABLE sessions (
    tenant_id     uuid NOT NULL,
    id            uuid NOT NULL,
    key_id        uuid NOT NULL,              -- the person's row
    hash          bytea NOT NULL UNIQUE,      -- SHA-256 of the secret
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    ended_at      timestamptz,                -- signed out, or ended by somebody
    last_used_at  timestamptz,
    address       text NOT NULL,              -- where it began
    agent         text NOT NULL,              -- the browser, as it calls itself
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, key_id) REFERENCES api_keys
);
CREATE INDEX sessions_key ON sessions (tenant_id, key_id, id);
SELECT sluice_protect('sessions');
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO sluice_app;
GRANT SELECT ON sessions TO sluice_auth;
CREATE POLICY auth ON sessions FOR SELECT TO sluice_auth USING (true);

-- +goose Down
DROP TABLE sessions;
