-- Which worker parses a version now: one that dies meanwhile leaves its name, and
-- that is the version's doing. versions.parses counts such deaths, and those of
-- parsers, since the version was last parsed.

-- +goose Up
ALTER TABLE leases ADD COLUMN parsing text;
COMMENT ON COLUMN leases.parsing IS 'the holder that parses the version';
COMMENT ON COLUMN versions.parses IS 'deaths of the parser, or of its worker, over the version since it was last parsed';

-- +goose Down
ALTER TABLE leases DROP COLUMN parsing;
