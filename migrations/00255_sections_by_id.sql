-- The key of sections begins with their id (252).

-- breaks nothing: the key has the same columns, in another order

-- +goose Up
ALTER TABLE sections DROP CONSTRAINT sections_pkey;
ALTER TABLE sections ADD CONSTRAINT sections_pkey PRIMARY KEY USING INDEX sections_id;

-- +goose Down
ALTER TABLE sections DROP CONSTRAINT sections_pkey;
ALTER TABLE sections ADD CONSTRAINT sections_pkey PRIMARY KEY (tenant_id, id);
