-- +goose NO TRANSACTION

-- The indexes of the keys to come (253 to 259), which begin with what is looked up. Of a tenant that came after the
-- statistics the planner assumes a single row. An index that begins with the tenant then seems as good by the tenant
-- alone as by the whole key, and joins and lists of ids read all of the tenant's rows.

-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS documents_id;
CREATE UNIQUE INDEX CONCURRENTLY documents_id ON documents (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS versions_id;
CREATE UNIQUE INDEX CONCURRENTLY versions_id ON versions (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS sections_id;
CREATE UNIQUE INDEX CONCURRENTLY sections_id ON sections (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS version_labels_version;
CREATE UNIQUE INDEX CONCURRENTLY version_labels_version ON version_labels (version_id, label, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS document_signatures_version;
CREATE UNIQUE INDEX CONCURRENTLY document_signatures_version ON document_signatures (version_id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_0_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_0_id ON passages_0 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_1_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_1_id ON passages_1 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_2_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_2_id ON passages_2 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_3_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_3_id ON passages_3 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_4_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_4_id ON passages_4 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_5_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_5_id ON passages_5 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_6_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_6_id ON passages_6 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS passages_7_id;
CREATE UNIQUE INDEX CONCURRENTLY passages_7_id ON passages_7 (id, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS version_metadata_version;
CREATE UNIQUE INDEX CONCURRENTLY version_metadata_version ON version_metadata (version_id, key, ordinal, tenant_id);
DROP INDEX CONCURRENTLY IF EXISTS version_metadata_key_text;
CREATE INDEX CONCURRENTLY version_metadata_key_text ON version_metadata (key, tenant_id, text_value text_pattern_ops);
DROP INDEX CONCURRENTLY IF EXISTS version_metadata_key_int;
CREATE INDEX CONCURRENTLY version_metadata_key_int ON version_metadata (key, tenant_id, int_value) WHERE int_value IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS version_metadata_key_time;
CREATE INDEX CONCURRENTLY version_metadata_key_time ON version_metadata (key, tenant_id, time_value) WHERE time_value IS NOT NULL;

-- +goose Down
DROP INDEX IF EXISTS version_metadata_version;
DROP INDEX IF EXISTS version_metadata_key_text;
DROP INDEX IF EXISTS version_metadata_key_int;
DROP INDEX IF EXISTS version_metadata_key_time;
DROP INDEX IF EXISTS documents_id;
DROP INDEX IF EXISTS versions_id;
DROP INDEX IF EXISTS sections_id;
DROP INDEX IF EXISTS version_labels_version;
DROP INDEX IF EXISTS document_signatures_version;
DROP INDEX IF EXISTS passages_0_id;
DROP INDEX IF EXISTS passages_1_id;
DROP INDEX IF EXISTS passages_2_id;
DROP INDEX IF EXISTS passages_3_id;
DROP INDEX IF EXISTS passages_4_id;
DROP INDEX IF EXISTS passages_5_id;
DROP INDEX IF EXISTS passages_6_id;
DROP INDEX IF EXISTS passages_7_id;
