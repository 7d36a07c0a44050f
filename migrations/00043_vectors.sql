-- Vectors by shard. Every vector is written to the shared partition, which has
-- no approximate index: loading stays fast and search there is exact. Curation
-- moves the vectors of a large collection, a generation at a time, to a
-- partition of their own, which gets an HNSW index when it is loaded. There is
-- no default partition, so that attaching a new one scans nothing.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    d int;
BEGIN
    FOREACH d IN ARRAY ARRAY[256, 384, 512, 768, 1024] LOOP
        EXECUTE format('ALTER TABLE vectors_%s DETACH PARTITION vectors_%1$s_shared', d);
        EXECUTE format('DROP TABLE vectors_%s', d);
        EXECUTE format('ALTER TABLE vectors_%s_shared DROP CONSTRAINT vectors_%1$s_shared_pkey,
            ADD COLUMN shard uuid NOT NULL DEFAULT ''00000000-0000-0000-0000-000000000000'',
            ADD COLUMN generation int NOT NULL DEFAULT 1', d);
        -- A collection's rows lie in the order of writing; equal keys of the
        -- index on them are stored once, and a scan of them is nearly sequential.
        EXECUTE format('CREATE TABLE vectors_%s (
            tenant_id      uuid NOT NULL,
            collection_id  uuid NOT NULL,
            space_id       int NOT NULL,
            passage_id     uuid NOT NULL,
            version_id     uuid NOT NULL,
            embedding      halfvec(%1$s) NOT NULL,
            shard          uuid NOT NULL DEFAULT ''00000000-0000-0000-0000-000000000000'',
            generation     int NOT NULL DEFAULT 1,
            PRIMARY KEY (passage_id, shard, tenant_id)
        ) PARTITION BY LIST (shard)', d);
        EXECUTE format('ALTER TABLE vectors_%s ALTER COLUMN embedding SET STORAGE PLAIN', d);
        EXECUTE format('CREATE INDEX vectors_%s_collection ON vectors_%1$s (collection_id, generation)', d);
        EXECUTE format('CREATE INDEX vectors_%s_version ON vectors_%1$s (version_id)', d);
        EXECUTE format('ALTER TABLE vectors_%s ATTACH PARTITION vectors_%1$s_shared FOR VALUES IN (''00000000-0000-0000-0000-000000000000'')', d);
        PERFORM sluice_protect(format('vectors_%s', d)::regclass);
        EXECUTE format('GRANT SELECT, INSERT, DELETE, UPDATE (shard) ON vectors_%s TO sluice_app', d);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- The partitions that collections have of their own: vectors_<dimension>_<id>.
-- A row is there before its partition and goes after it, so that whoever
-- continues after a crash knows of it.
CREATE TABLE vector_shards (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    dimension      int NOT NULL,
    -- The vectors that its HNSW index had when it was built; null: it has none.
    indexed        bigint,
    created_at     timestamptz NOT NULL DEFAULT now(),
    -- Since when nothing searches it: purge drops it.
    retired_at     timestamptz,
    PRIMARY KEY (id, tenant_id)
);
CREATE UNIQUE INDEX vector_shards_collection ON vector_shards (collection_id, generation, tenant_id) WHERE retired_at IS NULL;
CREATE INDEX vector_shards_retired ON vector_shards (retired_at) WHERE retired_at IS NOT NULL;
SELECT sluice_protect('vector_shards');
GRANT SELECT, INSERT, DELETE, UPDATE (indexed, retired_at) ON vector_shards TO sluice_app;
GRANT SELECT (tenant_id, id, dimension, retired_at) ON vector_shards TO sluice_system;
CREATE POLICY system ON vector_shards FOR SELECT TO sluice_system USING (true);

-- +goose Down
DROP TABLE vector_shards;
-- The older schema knows one generation, so the vectors of others go: a collection
-- whose live generation is not the first is without vectors after this.
-- The owner is under row-level security, too: it is lifted while rows move.
-- +goose StatementBegin
DO $$
DECLARE
    d int;
    part regclass;
BEGIN
    FOREACH d IN ARRAY ARRAY[256, 384, 512, 768, 1024] LOOP
        EXECUTE format('ALTER TABLE vectors_%s_shared NO FORCE ROW LEVEL SECURITY', d);
        FOR part IN SELECT inhrelid::regclass FROM pg_inherits
            WHERE inhparent = format('vectors_%s', d)::regclass AND inhrelid <> format('vectors_%s_shared', d)::regclass
        LOOP
            EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', part);
            EXECUTE format('INSERT INTO vectors_%s_shared (tenant_id, collection_id, space_id, passage_id, version_id, embedding, generation)
                SELECT tenant_id, collection_id, space_id, passage_id, version_id, embedding, generation FROM %s', d, part);
        END LOOP;
        EXECUTE format('DELETE FROM vectors_%s_shared WHERE generation > 1', d);
        EXECUTE format('ALTER TABLE vectors_%s DETACH PARTITION vectors_%1$s_shared', d);
        EXECUTE format('DROP TABLE vectors_%s', d);
        EXECUTE format('DROP INDEX vectors_%s_shared_collection_id_generation_idx', d);
        EXECUTE format('ALTER TABLE vectors_%s_shared DROP CONSTRAINT vectors_%1$s_shared_pkey, DROP COLUMN shard, DROP COLUMN generation', d);
        EXECUTE format('CREATE TABLE vectors_%s (
            tenant_id      uuid NOT NULL,
            collection_id  uuid NOT NULL,
            space_id       int NOT NULL,
            passage_id     uuid NOT NULL,
            version_id     uuid NOT NULL,
            embedding      halfvec(%1$s) NOT NULL,
            PRIMARY KEY (tenant_id, collection_id, space_id, passage_id)
        ) PARTITION BY LIST (collection_id)', d);
        EXECUTE format('CREATE INDEX vectors_%s_version ON vectors_%1$s (version_id)', d);
        EXECUTE format('ALTER TABLE vectors_%s ATTACH PARTITION vectors_%1$s_shared DEFAULT', d);
        PERFORM sluice_protect(format('vectors_%s', d)::regclass);
        EXECUTE format('GRANT SELECT, INSERT, DELETE ON vectors_%s TO sluice_app', d);
    END LOOP;
END
$$;
-- +goose StatementEnd
