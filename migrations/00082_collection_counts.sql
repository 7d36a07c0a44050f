-- What a collection has, counted as it changes: whoever asks for the counts of a
-- collection of a million documents does not go through them. Every statement
-- that changes versions leaves what it changed, as rows that nobody waits for;
-- curation adds these up (collection_counts), and whoever reads adds up the rest.

-- +goose Up
-- The newest version of a document that is not deleted. A version is that when
-- it is made.
ALTER TABLE versions ADD newest boolean NOT NULL DEFAULT true;

CREATE TABLE collection_counts (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    state          text NOT NULL,
    documents      bigint NOT NULL,  -- whose newest version is in the state
    bytes          bigint NOT NULL,  -- of these versions
    passages       bigint NOT NULL,  -- of live versions
    uncurated      bigint NOT NULL,  -- versions that curation has not come to
    changed_at     timestamptz NOT NULL,
    PRIMARY KEY (collection_id, state, tenant_id),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections ON DELETE CASCADE
);
SELECT sluice_protect('collection_counts');
GRANT SELECT, INSERT, UPDATE ON collection_counts TO sluice_app;

CREATE TABLE collection_changes (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    collection_id  uuid NOT NULL,
    id             bigint GENERATED ALWAYS AS IDENTITY,
    state          text NOT NULL,
    documents      bigint NOT NULL,
    bytes          bigint NOT NULL,
    passages       bigint NOT NULL,
    uncurated      bigint NOT NULL,
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (collection_id, id)
);
SELECT sluice_protect('collection_changes');
GRANT SELECT, INSERT, DELETE ON collection_changes TO sluice_app;
-- FOR UPDATE SKIP LOCKED needs the right to update one column.
GRANT UPDATE (changed_at) ON collection_changes TO sluice_app;
-- The reconciler changes the states of all tenants' versions.
GRANT INSERT ON collection_changes TO sluice_system;
CREATE POLICY system ON collection_changes FOR INSERT TO sluice_system WITH CHECK (true);

-- +goose StatementBegin
CREATE FUNCTION sluice_count_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO collection_changes (tenant_id, collection_id, state, documents, bytes, passages, uncurated)
    SELECT tenant_id, collection_id, state, count(*) FILTER (WHERE newest), coalesce(sum(bytes) FILTER (WHERE newest), 0),
           coalesce(sum(passage_count) FILTER (WHERE state = 'ready'), 0), count(*) FILTER (WHERE NOT curated AND state IN ('ready', 'superseded'))
    FROM after GROUP BY tenant_id, collection_id, state;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_count_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO collection_changes (tenant_id, collection_id, state, documents, bytes, passages, uncurated)
    SELECT tenant_id, collection_id, state, sum(n * newest::int), sum(n * newest::int * bytes),
           sum(n * (state = 'ready')::int * passage_count), sum(n * (NOT curated AND state IN ('ready', 'superseded'))::int)
    FROM (SELECT 1 AS n, tenant_id, collection_id, state, newest, bytes, passage_count, curated FROM after
          UNION ALL
          SELECT -1, tenant_id, collection_id, state, newest, bytes, passage_count, curated FROM before) AS v
    GROUP BY tenant_id, collection_id, state
    HAVING sum(n * newest::int) <> 0 OR sum(n * newest::int * bytes) <> 0 OR sum(n * (state = 'ready')::int * passage_count) <> 0
        OR sum(n * (NOT curated AND state IN ('ready', 'superseded'))::int) <> 0;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO collection_changes (tenant_id, collection_id, state, documents, bytes, passages, uncurated)
    SELECT tenant_id, collection_id, state, -count(*) FILTER (WHERE newest), -coalesce(sum(bytes) FILTER (WHERE newest), 0),
           -coalesce(sum(passage_count) FILTER (WHERE state = 'ready'), 0), -count(*) FILTER (WHERE NOT curated AND state IN ('ready', 'superseded'))
    FROM before WHERE newest OR state = 'ready' OR NOT curated AND state = 'superseded'
    GROUP BY tenant_id, collection_id, state;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- The owner sees all for a moment.
ALTER TABLE versions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE documents NO FORCE ROW LEVEL SECURITY;
ALTER TABLE collection_counts NO FORCE ROW LEVEL SECURITY;
UPDATE versions v SET newest = false
FROM documents d WHERE d.tenant_id = v.tenant_id AND d.id = v.document_id AND (d.deleted_at IS NOT NULL OR d.last_version_id IS DISTINCT FROM v.id);
INSERT INTO collection_counts
SELECT tenant_id, collection_id, state, count(*) FILTER (WHERE newest), coalesce(sum(bytes) FILTER (WHERE newest), 0),
       coalesce(sum(passage_count) FILTER (WHERE state = 'ready'), 0), count(*) FILTER (WHERE NOT curated AND state IN ('ready', 'superseded')),
       max(greatest(created_at, finished_at))
FROM versions GROUP BY tenant_id, collection_id, state;
ALTER TABLE collection_counts FORCE ROW LEVEL SECURITY;
ALTER TABLE documents FORCE ROW LEVEL SECURITY;
ALTER TABLE versions FORCE ROW LEVEL SECURITY;

CREATE TRIGGER count_added AFTER INSERT ON versions REFERENCING NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_count_added();
CREATE TRIGGER count_changed AFTER UPDATE ON versions REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_count_changed();
CREATE TRIGGER count_removed AFTER DELETE ON versions REFERENCING OLD TABLE AS before
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_count_removed();

-- +goose Down
DROP TRIGGER count_removed ON versions;
DROP TRIGGER count_changed ON versions;
DROP TRIGGER count_added ON versions;
DROP FUNCTION sluice_count_removed();
DROP FUNCTION sluice_count_changed();
DROP FUNCTION sluice_count_added();
DROP TABLE collection_changes, collection_counts;
ALTER TABLE versions DROP newest;
