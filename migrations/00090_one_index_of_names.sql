-- +goose NO TRANSACTION

-- documents_by_name has the same order, without the documents that are being
-- deleted, which a look at a folder's neighbours had to pass by.

-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS documents_folder;

-- +goose Down
CREATE INDEX CONCURRENTLY documents_folder ON documents (collection_id, external_id COLLATE "C");
