-- Tables that grow fast are analysed often. A quarter of the rows that ANALYZE reads by default is enough to plan by, and
-- takes a quarter of the time; autovacuum reads more later.

-- +goose Up
ALTER FUNCTION sluice_analyze_grown() SET default_statistics_target = 25;

-- +goose Down
ALTER FUNCTION sluice_analyze_grown() RESET default_statistics_target;
