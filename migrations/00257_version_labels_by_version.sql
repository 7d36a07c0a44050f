-- The key of version_labels begins with the version (252).

-- breaks nothing: the key has the same columns, in another order

-- +goose Up
ALTER TABLE version_labels DROP CONSTRAINT version_labels_pkey;
ALTER TABLE version_labels ADD CONSTRAINT version_labels_pkey PRIMARY KEY USING INDEX version_labels_version;

-- +goose Down
ALTER TABLE version_labels DROP CONSTRAINT version_labels_pkey;
ALTER TABLE version_labels ADD CONSTRAINT version_labels_pkey PRIMARY KEY (tenant_id, version_id, label);
