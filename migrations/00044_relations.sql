-- What finding the relations of sections needs: the links that may point to a
-- document, and the documents beside one in its folder. And how far clusters
-- have drifted.

-- +goose Up
-- The same for a link and for every document that it may mean (package cluster).
ALTER TABLE links ADD COLUMN key bigint NOT NULL DEFAULT 0;
CREATE INDEX links_key ON links (key, collection_id);
-- Sections placed or removed since all were clustered anew.
ALTER TABLE clusterings ADD COLUMN changed bigint NOT NULL DEFAULT 0;
CREATE INDEX documents_folder ON documents (collection_id, external_id COLLATE "C");

-- +goose Down
DROP INDEX documents_folder, links_key;
ALTER TABLE clusterings DROP COLUMN changed;
ALTER TABLE links DROP COLUMN key;
