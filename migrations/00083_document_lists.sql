-- +goose NO TRANSACTION

-- Documents in the orders in which they are listed, what carries a label, and
-- what a key asked. Ingestion and questions go on while these are built.

-- +goose Up
DROP INDEX IF EXISTS documents_by_name, versions_by_state, versions_by_bytes, version_labels_label, questions_asker; -- those that were left half built
CREATE INDEX CONCURRENTLY documents_by_name ON documents (collection_id, external_id COLLATE "C") WHERE deleted_at IS NULL;
CREATE INDEX CONCURRENTLY versions_by_state ON versions (collection_id, state, document_id) WHERE newest;
CREATE INDEX CONCURRENTLY versions_by_bytes ON versions (collection_id, bytes, document_id) WHERE newest;
CREATE INDEX CONCURRENTLY version_labels_label ON version_labels (label, version_id);
CREATE INDEX CONCURRENTLY questions_asker ON questions (key_id, id);

-- +goose Down
DROP INDEX questions_asker, version_labels_label, versions_by_bytes, versions_by_state, documents_by_name;
