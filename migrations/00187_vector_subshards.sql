-- A large collection's vectors lie in several shards of a bounded size. One that is
-- made to replace others is not searched before it does.

-- +goose Up
ALTER TABLE vector_shards ADD replaces uuid[] NOT NULL DEFAULT '{}';
GRANT UPDATE (replaces) ON vector_shards TO sluice_app;
DROP INDEX vector_shards_collection;
CREATE INDEX vector_shards_collection ON vector_shards (collection_id, generation) WHERE retired_at IS NULL;

-- +goose Down
-- The older schema knows one shard of a generation. The vectors of the others go back to
-- the shared partition; copies go. The owner is under row-level security, too: it is
-- lifted while rows move.
-- +goose StatementBegin
DO $$
DECLARE
    h record;
BEGIN
    ALTER TABLE vector_shards NO FORCE ROW LEVEL SECURITY;
    FOR h IN SELECT id, dimension, replaces FROM (
            SELECT *, row_number() OVER (PARTITION BY tenant_id, collection_id, generation ORDER BY replaces <> '{}', indexed IS NULL, created_at, id) AS n
            FROM vector_shards WHERE retired_at IS NULL) s
        WHERE n > 1 OR replaces <> '{}'
    LOOP
        IF h.replaces = '{}' THEN
            EXECUTE format('ALTER TABLE vectors_%s NO FORCE ROW LEVEL SECURITY', h.dimension);
            EXECUTE format('UPDATE vectors_%s SET shard = ''00000000-0000-0000-0000-000000000000'' WHERE shard = %L', h.dimension, h.id);
            EXECUTE format('ALTER TABLE vectors_%s FORCE ROW LEVEL SECURITY', h.dimension);
        END IF;
        UPDATE vector_shards SET retired_at = now() WHERE id = h.id;
    END LOOP;
    ALTER TABLE vector_shards FORCE ROW LEVEL SECURITY;
END
$$;
-- +goose StatementEnd
DROP INDEX vector_shards_collection;
CREATE UNIQUE INDEX vector_shards_collection ON vector_shards (collection_id, generation, tenant_id) WHERE retired_at IS NULL;
ALTER TABLE vector_shards DROP replaces;
