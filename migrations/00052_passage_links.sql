-- What the passages of a document are linked to inside it: the strongest of each
-- passage, one row for a section's passages (package store, passage_links.go).

-- +goose Up
CREATE TABLE passage_links (
    tenant_id      uuid NOT NULL,
    version_id     uuid NOT NULL,
    generation     int NOT NULL,
    section        int NOT NULL,               -- ordinal
    links          bytea NOT NULL,
    PRIMARY KEY (version_id, generation, section, tenant_id)
);
SELECT sluice_protect('passage_links');
GRANT SELECT, INSERT, DELETE ON passage_links TO sluice_app;

-- +goose Down
DROP TABLE passage_links;
