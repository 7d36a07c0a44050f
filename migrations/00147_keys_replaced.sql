-- Until when a key is good that another one replaced. Its own end stays, for the other
-- one has that too.

-- +goose Up
ALTER TABLE api_keys ADD replaced_until timestamptz;

-- +goose Down
ALTER TABLE api_keys DROP replaced_until;
