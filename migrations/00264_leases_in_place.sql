-- The rows of the leases are updated when their versions are parsed. With room on its page an update writes no new index entries.

-- +goose Up
ALTER TABLE leases SET (fillfactor = 50);

-- +goose Down
ALTER TABLE leases RESET (fillfactor);
