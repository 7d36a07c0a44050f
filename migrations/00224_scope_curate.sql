-- A scope between ingest and admin: curate.
--
-- breaks nothing: the new constraint takes all that the one before took, and programs of before look for scopes that they know.

-- +goose Up
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_scopes_check,
    ADD CONSTRAINT api_keys_scopes_check CHECK (scopes <@ ARRAY['operator', 'admin', 'curate', 'ingest', 'query', 'impersonate']);

-- +goose Down
-- A key has at least one scope. One that had no other ends.
ALTER TABLE api_keys NO FORCE ROW LEVEL SECURITY;
UPDATE api_keys SET scopes = '{query}', revoked_at = coalesce(revoked_at, now()) WHERE scopes = '{curate}';
UPDATE api_keys SET scopes = array_remove(scopes, 'curate') WHERE 'curate' = ANY (scopes);
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_scopes_check,
    ADD CONSTRAINT api_keys_scopes_check CHECK (scopes <@ ARRAY['operator', 'admin', 'ingest', 'query', 'impersonate']);
