-- The text of versions: sections, passages, vectors. And what a version's
-- stages hand to each other.

-- +goose Up
CREATE TABLE sections (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    version_id     uuid NOT NULL,
    document_id    uuid NOT NULL,
    collection_id  uuid NOT NULL,
    ordinal        int NOT NULL,
    heading_path   text[] NOT NULL DEFAULT '{}',
    body           text NOT NULL,
    tokens         int NOT NULL,
    -- Page marks: byte offsets and the pages that begin there.
    page_starts    int[] NOT NULL DEFAULT '{}',
    page_numbers   int[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, version_id, ordinal),
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions ON DELETE CASCADE
);
SELECT sluice_protect('sections');
GRANT SELECT, INSERT, DELETE ON sections TO sluice_app;

-- No foreign keys from here on: rows are written in bulk with their version,
-- and purged with it.
CREATE TABLE passages (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    section_id     uuid NOT NULL,
    version_id     uuid NOT NULL,
    collection_id  uuid NOT NULL,
    ordinal        int NOT NULL,
    start_byte     int NOT NULL,
    end_byte       int NOT NULL CHECK (end_byte > start_byte),
    tokens         int NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, section_id, ordinal)
) PARTITION BY HASH (tenant_id);
CREATE INDEX passages_version ON passages (tenant_id, version_id);
-- +goose StatementBegin
DO $$
BEGIN
    FOR i IN 0..7 LOOP
        EXECUTE format('CREATE TABLE passages_%s PARTITION OF passages FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i);
    END LOOP;
END
$$;
-- +goose StatementEnd
SELECT sluice_protect('passages');
GRANT SELECT, INSERT, DELETE ON passages TO sluice_app;

-- A narrow table per dimension. Searched exactly; the primary key's prefix
-- narrows the scan to one collection's vectors of one space.
-- +goose StatementBegin
DO $$
DECLARE
    d int;
BEGIN
    FOREACH d IN ARRAY ARRAY[256, 384, 512, 768, 1024] LOOP
        EXECUTE format('CREATE TABLE vectors_%s (
            tenant_id      uuid NOT NULL,
            collection_id  uuid NOT NULL,
            space_id       int NOT NULL REFERENCES spaces,
            passage_id     uuid NOT NULL,
            version_id     uuid NOT NULL,
            embedding      halfvec(%s) NOT NULL,
            PRIMARY KEY (tenant_id, collection_id, space_id, passage_id)
        ) PARTITION BY LIST (collection_id)', d, d);
        EXECUTE format('CREATE TABLE vectors_%s_shared PARTITION OF vectors_%s DEFAULT', d, d);
        EXECUTE format('ALTER TABLE vectors_%s_shared ALTER COLUMN embedding SET STORAGE PLAIN', d);
        EXECUTE format('CREATE INDEX vectors_%s_version ON vectors_%s (tenant_id, version_id)', d, d);
        PERFORM sluice_protect(format('vectors_%s', d)::regclass);
        EXECUTE format('GRANT SELECT, INSERT, DELETE ON vectors_%s TO sluice_app', d);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- What one stage of an attempt leaves for the next. Unlogged: after a crash of
-- the server the stages before run again.
CREATE UNLOGGED TABLE artifacts (
    tenant_id   uuid NOT NULL,
    version_id  uuid NOT NULL,
    attempt     int NOT NULL,
    stage       text NOT NULL CHECK (stage IN ('parsed', 'segmented', 'encoded')),
    data        bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, version_id, attempt, stage)
);
ALTER TABLE artifacts ALTER COLUMN data SET STORAGE EXTERNAL;
SELECT sluice_protect('artifacts');
GRANT SELECT, INSERT, UPDATE, DELETE ON artifacts TO sluice_app;
GRANT SELECT, DELETE ON artifacts TO sluice_system;
CREATE POLICY system ON artifacts TO sluice_system USING (true);

-- +goose Down
DROP TABLE artifacts, vectors_256, vectors_384, vectors_512, vectors_768, vectors_1024, passages, sections;
