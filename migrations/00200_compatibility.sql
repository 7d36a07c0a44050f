-- Programs of an older version go on working while the database is migrated, and may be started on it again. A migration
-- that takes away what some of them use names here the least version whose programs do without, by a migration that they
-- have; programs that do not have it refuse the database then.

-- +goose Up
CREATE TABLE schema_compatibility (
    migration  bigint PRIMARY KEY,
    raised_at  timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON schema_compatibility TO sluice_system;

-- Says in a migration that programs without the given one, which is of an earlier release, may not run on the database.
-- +goose StatementBegin
CREATE FUNCTION sluice_least_compatible(migration bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.schema_compatibility (migration) VALUES ($1) ON CONFLICT DO NOTHING;
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_least_compatible(bigint) FROM PUBLIC;

-- +goose Down
DROP FUNCTION sluice_least_compatible(bigint);
DROP TABLE schema_compatibility;
