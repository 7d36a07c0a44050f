-- Tenants, their keys, what they did, and requests that may be repeated.

-- +goose Up
CREATE TABLE tenants (
    id              uuid PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    -- Quotas; null is no limit.
    max_documents   bigint CHECK (max_documents >= 0),
    max_bytes       bigint CHECK (max_bytes >= 0),
    created_at      timestamptz NOT NULL DEFAULT now()
);
SELECT sluice_protect('tenants', 'id');
GRANT SELECT ON tenants TO sluice_app;
-- The operator's view: only calls authorised by an operator key run as system.
GRANT SELECT, INSERT, UPDATE ON tenants TO sluice_system;
CREATE POLICY system ON tenants TO sluice_system USING (true) WITH CHECK (true);

CREATE TABLE api_keys (
    tenant_id    uuid NOT NULL REFERENCES tenants,
    id           uuid NOT NULL,
    name         text NOT NULL,
    prefix       text NOT NULL,               -- shown in lists
    hash         bytea NOT NULL UNIQUE,       -- SHA-256 of the key
    scopes       text[] NOT NULL,
    groups       text[] NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    PRIMARY KEY (tenant_id, id),
    CHECK (scopes <@ ARRAY['operator', 'admin', 'ingest', 'query', 'impersonate']),
    CHECK (cardinality(scopes) > 0)
);
SELECT sluice_protect('api_keys');
GRANT SELECT, INSERT, UPDATE ON api_keys TO sluice_app;
GRANT SELECT ON api_keys TO sluice_auth;
CREATE POLICY auth ON api_keys FOR SELECT TO sluice_auth USING (true);

CREATE TABLE audit (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    id         uuid NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    actor      text NOT NULL,                 -- "key:<id>" or "system"
    action     text NOT NULL,                 -- "document.delete"
    target     text NOT NULL,
    detail     jsonb,
    PRIMARY KEY (tenant_id, id)
);
SELECT sluice_protect('audit');
-- Append-only: no role has UPDATE or DELETE, and the owner is stopped too.
GRANT SELECT, INSERT ON audit TO sluice_app;
-- +goose StatementBegin
CREATE FUNCTION sluice_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();

CREATE TABLE idempotency (
    tenant_id     uuid NOT NULL REFERENCES tenants,
    key           text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    route         text NOT NULL,
    request_hash  bytea NOT NULL,
    -- Null while the first request still runs.
    status        int,
    content_type  text,
    body          bytea,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);
SELECT sluice_protect('idempotency');
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO sluice_app;
GRANT SELECT, DELETE ON idempotency TO sluice_system;
CREATE POLICY system ON idempotency TO sluice_system USING (true);

-- +goose Down
DROP TABLE idempotency, audit, api_keys, tenants;
DROP FUNCTION sluice_append_only();
