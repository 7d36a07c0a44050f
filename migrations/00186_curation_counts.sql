-- What curation knows without counting it again.

-- +goose Up
-- How many sections are members of the clusters of a generation; null where an older
-- build made them, until curation counts them.
ALTER TABLE clusterings ADD members bigint;
ALTER TABLE clusterings ALTER members SET DEFAULT 0;

-- The generation of which every ready version was seen to have its entry in the
-- lexical index. Who takes entries away and leaves others to curation takes the
-- time back.
CREATE TABLE lexical_complete (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    checked_at     timestamptz,  -- null: it has to be looked at
    PRIMARY KEY (collection_id, tenant_id)
);
SELECT sluice_protect('lexical_complete');
GRANT SELECT, INSERT, UPDATE, DELETE ON lexical_complete TO sluice_app;

-- +goose Down
DROP TABLE lexical_complete;
ALTER TABLE clusterings DROP members;
