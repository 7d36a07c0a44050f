-- The key of versions begins with their id (252). The foreign keys that depend on it are made again, without
-- checking the rows: the old ones checked them, and a check by the owner would see no tenant's rows.

-- breaks nothing: the keys have the same columns, in another order

-- +goose Up
ALTER TABLE version_labels DROP CONSTRAINT version_labels_tenant_id_version_id_fkey;
ALTER TABLE version_metadata DROP CONSTRAINT version_metadata_tenant_id_version_id_fkey;
ALTER TABLE document_signatures DROP CONSTRAINT document_signatures_tenant_id_version_id_fkey;
ALTER TABLE versions DROP CONSTRAINT versions_pkey;
ALTER TABLE versions ADD CONSTRAINT versions_pkey PRIMARY KEY USING INDEX versions_id;
ALTER TABLE version_labels ADD CONSTRAINT version_labels_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE version_metadata ADD CONSTRAINT version_metadata_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE document_signatures ADD CONSTRAINT document_signatures_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions (tenant_id, id) ON DELETE CASCADE NOT VALID;

-- +goose Down
ALTER TABLE version_labels DROP CONSTRAINT version_labels_tenant_id_version_id_fkey;
ALTER TABLE version_metadata DROP CONSTRAINT version_metadata_tenant_id_version_id_fkey;
ALTER TABLE document_signatures DROP CONSTRAINT document_signatures_tenant_id_version_id_fkey;
ALTER TABLE versions DROP CONSTRAINT versions_pkey;
ALTER TABLE versions ADD CONSTRAINT versions_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE version_labels ADD CONSTRAINT version_labels_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE version_metadata ADD CONSTRAINT version_metadata_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE document_signatures ADD CONSTRAINT document_signatures_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions (tenant_id, id) ON DELETE CASCADE NOT VALID;
