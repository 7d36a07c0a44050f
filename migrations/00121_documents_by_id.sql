-- +goose NO TRANSACTION

-- The order of documents in a list. An index that begins with the tenant is also
-- taken to look a document up by tenant and id, as good as the primary key by
-- old statistics, and is then read from end to end. Ingestion and questions go
-- on while this is built.

-- +goose Up
DROP INDEX IF EXISTS documents_by_id; -- one that was left half built
CREATE INDEX CONCURRENTLY documents_by_id ON documents (collection_id, id) WHERE deleted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS documents_page;

-- +goose Down
CREATE INDEX CONCURRENTLY IF NOT EXISTS documents_page ON documents (tenant_id, collection_id, id) WHERE deleted_at IS NULL;
DROP INDEX documents_by_id;
