-- The key of document_signatures begins with the version (252).

-- breaks nothing: the key has the same columns, in another order

-- +goose Up
ALTER TABLE document_signatures DROP CONSTRAINT document_signatures_pkey;
ALTER TABLE document_signatures ADD CONSTRAINT document_signatures_pkey PRIMARY KEY USING INDEX document_signatures_version;

-- +goose Down
ALTER TABLE document_signatures DROP CONSTRAINT document_signatures_pkey;
ALTER TABLE document_signatures ADD CONSTRAINT document_signatures_pkey PRIMARY KEY (tenant_id, version_id);
