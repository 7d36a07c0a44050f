-- What curation has yet to do, where it survives the workflow that was to do it.

-- +goose Up
-- When the links that a version's metadata names changed after its sections were
-- placed: curation places them again.
ALTER TABLE versions ADD COLUMN relinked_at timestamptz;

-- Collections of which all sections are to be clustered anew: someone asked for
-- it, or much has changed since. The row goes when it is done.
CREATE TABLE reclusterings (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    asked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (collection_id, tenant_id)
);
SELECT sluice_protect('reclusterings');
GRANT SELECT, INSERT, UPDATE, DELETE ON reclusterings TO sluice_app;
GRANT SELECT (tenant_id, collection_id, asked_at) ON reclusterings TO sluice_system;
CREATE POLICY system ON reclusterings FOR SELECT TO sluice_system USING (true);

-- The reconciler counts the segments that wait to be merged, and finds shards
-- that have no index yet.
CREATE INDEX lexical_segments_small ON lexical_segments (collection_id, generation, tenant_id, bytes, created_at)
    WHERE merged_at IS NULL AND bytes < 33554432;
GRANT SELECT (generation, bytes, created_at) ON lexical_segments TO sluice_system;
CREATE INDEX vector_shards_unindexed ON vector_shards (collection_id) WHERE indexed IS NULL AND retired_at IS NULL;
GRANT SELECT (collection_id, indexed, created_at) ON vector_shards TO sluice_system;

-- +goose Down
REVOKE SELECT (collection_id, indexed, created_at) ON vector_shards FROM sluice_system;
DROP INDEX vector_shards_unindexed;
REVOKE SELECT (generation, bytes, created_at) ON lexical_segments FROM sluice_system;
DROP INDEX lexical_segments_small;
DROP TABLE reclusterings;
ALTER TABLE versions DROP COLUMN relinked_at;
