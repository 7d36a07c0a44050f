-- The text of sections is compressed as it is written: LZ4 takes a quarter of
-- the time of Postgres' own method and little more space. What is stored stays
-- as it is. A server may be built without it.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE sections ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE sections ALTER COLUMN body SET COMPRESSION DEFAULT;
