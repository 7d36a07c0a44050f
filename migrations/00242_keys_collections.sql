-- A key may have scopes of single collections beside those of the tenant: [{"id": a collection's, "scopes": [...]}].
-- The id of a collection that was deleted stays and gives nothing.
--
-- breaks nothing: the new constraint takes all that the one before took. A key without scopes of the tenant has the SHA-256 of
-- its hash as its hash, so that programs of before, which would take it for a key that may read, do not know it.

-- +goose Up
ALTER TABLE api_keys
    ADD collections jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(collections) = 'array' AND jsonb_array_length(collections) <= 100),
    DROP CONSTRAINT api_keys_scopes_check1,
    ADD CONSTRAINT api_keys_scopes_check1 CHECK (cardinality(scopes) > 0 OR collections <> '[]');

-- +goose Down
-- A key has at least one scope. One that had none of the tenant ends.
ALTER TABLE api_keys NO FORCE ROW LEVEL SECURITY;
UPDATE api_keys SET scopes = '{query}', revoked_at = coalesce(revoked_at, now()) WHERE cardinality(scopes) = 0;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_scopes_check1,
    ADD CONSTRAINT api_keys_scopes_check1 CHECK (cardinality(scopes) > 0),
    DROP collections;
