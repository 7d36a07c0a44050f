-- Generations of a collection: the recipes under which its text was cut, encoded
-- and indexed. collections.generation names the live one. One that was live
-- from the collection's making has no row before another replaces it.

-- +goose Up
CREATE TABLE generations (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    number         int NOT NULL CHECK (number > 0),
    language       text NOT NULL,
    segmentation   text NOT NULL CHECK (segmentation IN ('sage')),
    space_id       int REFERENCES spaces,      -- null until something was encoded
    state          text NOT NULL CHECK (state IN ('building', 'live', 'retired', 'cancelled', 'failed')),
    reason         text,                       -- of a failure
    versions       int NOT NULL DEFAULT 0,     -- written so far; one that ended since counts too
    passages       bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,                -- when it left its last state for this one
    -- Until when ingestion waits, so that the last versions can be caught up with.
    closing_until  timestamptz,
    -- Removal goes through the collection's versions in the order of their ids.
    removed_to     uuid,
    removed_at     timestamptz,
    PRIMARY KEY (collection_id, number, tenant_id),
    CHECK ((state = 'failed') = (reason IS NOT NULL))
);
CREATE UNIQUE INDEX generations_building ON generations (collection_id, tenant_id) WHERE state = 'building';
CREATE INDEX generations_unremoved ON generations (finished_at)
    WHERE state IN ('retired', 'cancelled', 'failed') AND removed_at IS NULL;
SELECT sluice_protect('generations');
GRANT SELECT, INSERT, UPDATE, DELETE ON generations TO sluice_app;

-- The reconciler finds what nobody works on.
GRANT SELECT (tenant_id, collection_id, number, state, created_at, finished_at, removed_at) ON generations TO sluice_system;
CREATE POLICY system ON generations FOR SELECT TO sluice_system USING (true);
GRANT SELECT (tenant_id, collection_id, merged_at) ON lexical_segments TO sluice_system;
CREATE POLICY system ON lexical_segments FOR SELECT TO sluice_system USING (true);

-- +goose Down
DROP POLICY system ON lexical_segments;
REVOKE SELECT (tenant_id, collection_id, merged_at) ON lexical_segments FROM sluice_system;
DROP TABLE generations;
