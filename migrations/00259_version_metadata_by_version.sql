-- The key of version_metadata begins with the version (252).

-- breaks nothing: the key has the same columns, in another order

-- +goose Up
ALTER TABLE version_metadata DROP CONSTRAINT version_metadata_pkey;
ALTER TABLE version_metadata ADD CONSTRAINT version_metadata_pkey PRIMARY KEY USING INDEX version_metadata_version;

-- +goose Down
ALTER TABLE version_metadata DROP CONSTRAINT version_metadata_pkey;
ALTER TABLE version_metadata ADD CONSTRAINT version_metadata_pkey PRIMARY KEY (tenant_id, version_id, key, ordinal);
