-- Tables that grow fast are analysed often. A quarter of the rows that ANALYZE reads by default is enough to plan by, and
-- takes a quarter of the time; autovacuum reads more later. No condition is on a signature or on its array of keys, whose
-- elements ANALYZE would count.

-- +goose Up
ALTER FUNCTION sluice_analyze_grown() SET default_statistics_target = 25;
ALTER TABLE document_signatures ALTER COLUMN signature SET STATISTICS 0, ALTER COLUMN keys SET STATISTICS 0;

-- +goose Down
ALTER TABLE document_signatures ALTER COLUMN signature SET STATISTICS -1, ALTER COLUMN keys SET STATISTICS -1;
ALTER FUNCTION sluice_analyze_grown() RESET default_statistics_target;
