-- A vector's space needs no foreign key: it is its collection's, which has one,
-- no role of the program may delete a space, and looking at the one row for
-- every vector makes all batches lock it.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT partrelid::regclass FROM pg_partitioned_table WHERE partrelid::regclass::text ~ '^vectors_[0-9]+$' LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', t, t || '_space_id_fkey');
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT partrelid::regclass FROM pg_partitioned_table WHERE partrelid::regclass::text ~ '^vectors_[0-9]+$' LOOP
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (space_id) REFERENCES spaces', t, t || '_space_id_fkey');
    END LOOP;
END
$$;
-- +goose StatementEnd
