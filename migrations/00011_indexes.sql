-- Indexes that do not begin with the tenant. Every query has a condition on the
-- tenant; while a table is small or has no statistics, an index that begins
-- with it looks as good for any query as the right one, and reads all the
-- tenant's rows. Ids and hashes are unique enough by themselves.

-- +goose Up
ALTER TABLE documents DROP CONSTRAINT documents_tenant_id_collection_id_external_id_key;
ALTER TABLE documents ADD CONSTRAINT documents_name UNIQUE (external_id, collection_id, tenant_id);
ALTER TABLE versions DROP CONSTRAINT versions_tenant_id_document_id_number_key;
ALTER TABLE versions ADD CONSTRAINT versions_number UNIQUE (document_id, number, tenant_id);
ALTER TABLE sections DROP CONSTRAINT sections_tenant_id_version_id_ordinal_key;
ALTER TABLE sections ADD CONSTRAINT sections_ordinal UNIQUE (version_id, ordinal, tenant_id);
ALTER TABLE passages DROP CONSTRAINT passages_tenant_id_section_id_ordinal_key;
ALTER TABLE passages ADD CONSTRAINT passages_ordinal UNIQUE (section_id, ordinal, tenant_id);
DROP INDEX versions_collection, versions_blob, passages_version, citations_version, retrieval_versions_retrieval;
CREATE INDEX versions_collection ON versions (collection_id, state);
CREATE INDEX versions_blob ON versions (sha256);
CREATE INDEX passages_version ON passages (version_id);
CREATE INDEX citations_version ON citations (version_id);
CREATE INDEX retrieval_versions_retrieval ON retrieval_versions (question_id, round);
-- +goose StatementBegin
DO $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT partrelid::regclass FROM pg_partitioned_table WHERE partrelid::regclass::text ~ '^vectors_[0-9]+$' LOOP
        EXECUTE format('DROP INDEX %I', t || '_version');
        EXECUTE format('CREATE INDEX %I ON %s (version_id)', t || '_version', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE documents DROP CONSTRAINT documents_name;
ALTER TABLE documents ADD UNIQUE (tenant_id, collection_id, external_id);
ALTER TABLE versions DROP CONSTRAINT versions_number;
ALTER TABLE versions ADD UNIQUE (tenant_id, document_id, number);
ALTER TABLE sections DROP CONSTRAINT sections_ordinal;
ALTER TABLE sections ADD UNIQUE (tenant_id, version_id, ordinal);
ALTER TABLE passages DROP CONSTRAINT passages_ordinal;
ALTER TABLE passages ADD UNIQUE (tenant_id, section_id, ordinal);
DROP INDEX versions_collection, versions_blob, passages_version, citations_version, retrieval_versions_retrieval;
CREATE INDEX versions_collection ON versions (tenant_id, collection_id, state);
CREATE INDEX versions_blob ON versions (tenant_id, sha256);
CREATE INDEX passages_version ON passages (tenant_id, version_id);
CREATE INDEX citations_version ON citations (tenant_id, version_id);
CREATE INDEX retrieval_versions_retrieval ON retrieval_versions (tenant_id, question_id, round);
-- +goose StatementBegin
DO $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT partrelid::regclass FROM pg_partitioned_table WHERE partrelid::regclass::text ~ '^vectors_[0-9]+$' LOOP
        EXECUTE format('DROP INDEX %I', t || '_version');
        EXECUTE format('CREATE INDEX %I ON %s (tenant_id, version_id)', t || '_version', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
