-- Replies of language models, for the same request of the same tenant, and the
-- versions whose text they were made from: with one of them purged, the reply
-- goes, too.

-- +goose Up
CREATE TABLE llm_cache (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    key         bytea NOT NULL,               -- SHA-256 of provider, model and request
    reply       jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX llm_cache_age ON llm_cache (tenant_id, created_at);
SELECT sluice_protect('llm_cache');
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_cache TO sluice_app;

CREATE TABLE llm_cache_versions (
    tenant_id   uuid NOT NULL,
    version_id  uuid NOT NULL,
    key         bytea NOT NULL,
    PRIMARY KEY (tenant_id, version_id, key),
    FOREIGN KEY (tenant_id, key) REFERENCES llm_cache ON DELETE CASCADE
);
CREATE INDEX llm_cache_versions_key ON llm_cache_versions (tenant_id, key);
SELECT sluice_protect('llm_cache_versions');
GRANT SELECT, INSERT, DELETE ON llm_cache_versions TO sluice_app;

-- +goose Down
DROP TABLE llm_cache_versions, llm_cache;
