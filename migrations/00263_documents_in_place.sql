-- A document's row is updated when its first version is ready. With room on its page the update writes no new index entries.

-- +goose Up
ALTER TABLE documents SET (fillfactor = 50);

-- +goose Down
ALTER TABLE documents RESET (fillfactor);
