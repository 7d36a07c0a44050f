-- What receipts of answers say of how they were made. All of it is of the moment of the answer and stays when a cited version is
-- purged; answers that are stored already have none of it.

-- +goose Up
ALTER TABLE answers
    ADD plan_sha256 text NOT NULL DEFAULT '',   -- hex, of the plan's YAML
    ADD pack text NOT NULL DEFAULT '',
    ADD pack_version text NOT NULL DEFAULT '',
    ADD pack_sha256 text NOT NULL DEFAULT '';   -- hex, of the pack's manifest
ALTER TABLE citations
    ADD section int,                            -- ordinal of the section
    ADD file jsonb;                             -- what the version's bytes were parsed by

-- +goose Down
ALTER TABLE citations DROP section, DROP file;
ALTER TABLE answers DROP plan_sha256, DROP pack, DROP pack_version, DROP pack_sha256;
