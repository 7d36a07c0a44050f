-- The lexical index: immutable segments of pages, the entries that they hold,
-- and which of those are dead. DESIGN of the pages: package lexical.

-- +goose Up
-- A collection's recipe is known by its generation; what is derived carries it.
ALTER TABLE passages ADD COLUMN generation int NOT NULL DEFAULT 1;
ALTER TABLE passages DROP CONSTRAINT passages_ordinal;
ALTER TABLE passages ADD CONSTRAINT passages_ordinal UNIQUE (section_id, generation, ordinal, tenant_id);

CREATE TABLE lexical_segments (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    header         bytea NOT NULL,
    documents      int NOT NULL,               -- entries, dead ones too
    passages       int NOT NULL,
    bytes          bigint NOT NULL,            -- of header and pages
    created_at     timestamptz NOT NULL DEFAULT now(),
    -- When it was merged into another. It stays readable for a while.
    merged_at      timestamptz,
    PRIMARY KEY (id, tenant_id)
);
ALTER TABLE lexical_segments ALTER COLUMN header SET STORAGE EXTERNAL;
CREATE INDEX lexical_segments_live ON lexical_segments (collection_id, generation) WHERE merged_at IS NULL;
CREATE INDEX lexical_segments_merged ON lexical_segments (merged_at) WHERE merged_at IS NOT NULL;
SELECT sluice_protect('lexical_segments');
GRANT SELECT, INSERT, DELETE, UPDATE (merged_at) ON lexical_segments TO sluice_app;

-- Pages of sorted terms with their postings; a page without terms holds a part
-- of the segment's directory.
CREATE TABLE lexical_pages (
    tenant_id      uuid NOT NULL,
    segment_id     uuid NOT NULL,
    page           int NOT NULL,
    first_term     bytea,
    last_term      bytea,
    data           bytea NOT NULL,
    PRIMARY KEY (segment_id, page, tenant_id)
);
ALTER TABLE lexical_pages ALTER COLUMN data SET STORAGE EXTERNAL;
SELECT sluice_protect('lexical_pages');
GRANT SELECT, INSERT, DELETE ON lexical_pages TO sluice_app;

-- One version's postings in one segment. A dead entry is the tombstone that
-- hides them; it names the entry, never an ordinal, so a merge cannot bring it
-- back. A version has one living entry per generation; other labels make
-- another entry.
CREATE TABLE lexical_entries (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    version_id     uuid NOT NULL,
    dead           boolean NOT NULL DEFAULT false,
    PRIMARY KEY (id, tenant_id)
);
CREATE UNIQUE INDEX lexical_entries_living ON lexical_entries (version_id, generation, tenant_id) WHERE NOT dead;
CREATE INDEX lexical_entries_version ON lexical_entries (version_id);
CREATE INDEX lexical_entries_dead ON lexical_entries (collection_id, generation) INCLUDE (id) WHERE dead;
SELECT sluice_protect('lexical_entries');
GRANT SELECT, INSERT, DELETE, UPDATE (dead) ON lexical_entries TO sluice_app;

-- Whether curation has taken note of a version's going live or leaving.
ALTER TABLE versions ADD COLUMN curated boolean NOT NULL DEFAULT false;
CREATE INDEX versions_uncurated ON versions (collection_id) WHERE NOT curated AND state IN ('ready', 'superseded');
GRANT SELECT (curated) ON versions TO sluice_system;

-- Whatever ends a version's life ends its postings', in the same commit.
-- +goose StatementBegin
CREATE FUNCTION sluice_bury() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lexical_entries SET dead = true WHERE tenant_id = OLD.tenant_id AND version_id = OLD.id AND NOT dead;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER bury AFTER UPDATE OF state ON versions FOR EACH ROW
    WHEN (OLD.state = 'ready' AND NEW.state <> 'ready') EXECUTE FUNCTION sluice_bury();
CREATE TRIGGER bury_deleted AFTER DELETE ON versions FOR EACH ROW EXECUTE FUNCTION sluice_bury();
-- +goose StatementBegin
CREATE FUNCTION sluice_uncurate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.curated := false;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER uncurate BEFORE UPDATE OF state ON versions FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION sluice_uncurate();

-- +goose Down
DROP TRIGGER uncurate ON versions;
DROP TRIGGER bury_deleted ON versions;
DROP TRIGGER bury ON versions;
DROP FUNCTION sluice_uncurate();
DROP FUNCTION sluice_bury();
ALTER TABLE versions DROP COLUMN curated;
DROP TABLE lexical_entries, lexical_pages, lexical_segments;
-- The older schema knows one generation. What a collection has of others goes; one
-- whose live generation is not the first must be uploaded again.
DELETE FROM passages WHERE generation > 1;
ALTER TABLE passages DROP COLUMN generation;
ALTER TABLE passages ADD CONSTRAINT passages_ordinal UNIQUE (section_id, ordinal, tenant_id);
