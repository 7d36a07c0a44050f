-- Clusters of sections, and the links that relate sections.

-- +goose Up
-- Where a section's links point to, as written in the document.
CREATE TABLE links (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    version_id     uuid NOT NULL,
    section        int NOT NULL,               -- ordinal; -1: of the whole document (its metadata)
    target         text NOT NULL CHECK (length(target) BETWEEN 1 AND 2048),
    PRIMARY KEY (version_id, section, target, tenant_id)
);
SELECT sluice_protect('links');
GRANT SELECT, INSERT, DELETE ON links TO sluice_app;

-- A cluster is a set of sections with a bounded sum of tokens.
CREATE TABLE clusters (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    tokens         int NOT NULL CHECK (tokens > 0),
    sections       int NOT NULL CHECK (sections > 0),
    PRIMARY KEY (id, tenant_id)
);
CREATE INDEX clusters_collection ON clusters (collection_id, generation);
SELECT sluice_protect('clusters');
GRANT SELECT, INSERT, UPDATE, DELETE ON clusters TO sluice_app;

CREATE TABLE cluster_members (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    section_id     uuid NOT NULL,
    version_id     uuid NOT NULL,
    section        int NOT NULL,               -- its ordinal in the version
    cluster_id     uuid NOT NULL,
    tokens         int NOT NULL,
    -- The clustering in which it came to this cluster: readers fetch what is
    -- newer than what they have.
    epoch          bigint NOT NULL,
    PRIMARY KEY (section_id, generation, tenant_id)
);
CREATE INDEX cluster_members_epoch ON cluster_members (collection_id, generation, epoch);
CREATE INDEX cluster_members_cluster ON cluster_members (cluster_id);
CREATE INDEX cluster_members_version ON cluster_members (version_id);
SELECT sluice_protect('cluster_members');
GRANT SELECT, INSERT, UPDATE, DELETE ON cluster_members TO sluice_app;

-- The newest epoch of a collection's clustering. Its row is locked by whoever
-- clusters, so epochs are committed in order.
CREATE TABLE clusterings (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    generation     int NOT NULL,
    epoch          bigint NOT NULL DEFAULT 0,
    clustered_at   timestamptz,
    rebuilt_at     timestamptz,
    PRIMARY KEY (collection_id, generation, tenant_id)
);
SELECT sluice_protect('clusterings');
GRANT SELECT, INSERT, UPDATE, DELETE ON clusterings TO sluice_app;

-- +goose Down
DROP TABLE clusterings, cluster_members, clusters, links;
