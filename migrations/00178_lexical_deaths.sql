-- Entries of the lexical index that have died are numbered as they do, so that a worker
-- that knows most of them is sent the others alone.

-- +goose Up
CREATE SEQUENCE lexical_deaths;
GRANT USAGE ON SEQUENCE lexical_deaths TO sluice_app;
ALTER TABLE lexical_entries ADD COLUMN died bigint;
-- +goose StatementBegin
CREATE FUNCTION sluice_number_death() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.died := nextval('public.lexical_deaths');
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER number_death BEFORE UPDATE OF dead ON lexical_entries FOR EACH ROW
    WHEN (NEW.dead AND NOT OLD.dead) EXECUTE FUNCTION sluice_number_death();
CREATE INDEX lexical_entries_deaths ON lexical_entries (collection_id, generation) INCLUDE (id, died) WHERE dead;
DROP INDEX lexical_entries_dead;

-- +goose Down
CREATE INDEX lexical_entries_dead ON lexical_entries (collection_id, generation) INCLUDE (id) WHERE dead;
DROP INDEX lexical_entries_deaths;
DROP TRIGGER number_death ON lexical_entries;
DROP FUNCTION sluice_number_death();
ALTER TABLE lexical_entries DROP COLUMN died;
DROP SEQUENCE lexical_deaths;
