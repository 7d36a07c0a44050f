-- When a key was last used, to within minutes: whoever looks after keys sees which
-- ones nobody needs.

-- +goose Up
ALTER TABLE api_keys ADD last_used_at timestamptz;

-- +goose Down
ALTER TABLE api_keys DROP last_used_at;
