-- Until when its asker waits for a question that runs at once. Whoever was to end it may be
-- gone by then.

-- +goose Up
ALTER TABLE questions ADD waited_until timestamptz;
GRANT SELECT (waited_until) ON questions TO sluice_system;

-- +goose Down
ALTER TABLE questions DROP waited_until;
