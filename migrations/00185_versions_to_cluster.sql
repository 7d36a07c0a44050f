-- +goose NO TRANSACTION

-- What curation clusters next, in its order: it reads as many as it does, however
-- many wait. What waits for its encoder comes last, and is not read.

-- +goose Up
DROP INDEX IF EXISTS versions_to_cluster; -- one that was left half built
CREATE INDEX CONCURRENTLY versions_to_cluster
    ON versions (collection_id, (CASE WHEN state = 'superseded' THEN 0 WHEN unencoded THEN 2 ELSE 1 END), id)
    WHERE NOT curated AND state IN ('ready', 'superseded');
DROP INDEX IF EXISTS versions_uncurated;

-- +goose Down
CREATE INDEX versions_uncurated ON versions (collection_id) WHERE NOT curated AND state IN ('ready', 'superseded');
DROP INDEX versions_to_cluster;
