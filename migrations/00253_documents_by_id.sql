-- The key of documents begins with their id (252). The foreign keys that depend on it are made again, without
-- checking the rows: the old ones checked them, and a check by the owner would see no tenant's rows.

-- breaks nothing: the keys have the same columns, in another order

-- +goose Up
ALTER TABLE versions DROP CONSTRAINT versions_tenant_id_document_id_fkey;
ALTER TABLE reparsed_documents DROP CONSTRAINT reparsed_documents_tenant_id_document_id_fkey;
ALTER TABLE documents DROP CONSTRAINT documents_pkey;
ALTER TABLE documents ADD CONSTRAINT documents_pkey PRIMARY KEY USING INDEX documents_id;
ALTER TABLE versions ADD CONSTRAINT versions_tenant_id_document_id_fkey
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE reparsed_documents ADD CONSTRAINT reparsed_documents_tenant_id_document_id_fkey
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents (tenant_id, id) ON DELETE CASCADE NOT VALID;

-- +goose Down
ALTER TABLE versions DROP CONSTRAINT versions_tenant_id_document_id_fkey;
ALTER TABLE reparsed_documents DROP CONSTRAINT reparsed_documents_tenant_id_document_id_fkey;
ALTER TABLE documents DROP CONSTRAINT documents_pkey;
ALTER TABLE documents ADD CONSTRAINT documents_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE versions ADD CONSTRAINT versions_tenant_id_document_id_fkey
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE reparsed_documents ADD CONSTRAINT reparsed_documents_tenant_id_document_id_fkey
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents (tenant_id, id) ON DELETE CASCADE NOT VALID;
