-- One number tells a search whether anything has changed in a collection's index
-- since it was read.

-- +goose Up
-- A collection's revision is the sum of its rows. Whoever changes what searches
-- read raises one of them in the same transaction: any that no other transaction
-- is raising, or a new one, so that writers never wait for each other. Rows are
-- raised and added, never lowered or removed: as long as the sum is the same, no
-- other change was committed. By how much is left to chance, so that a database
-- put back to an older state does not come to the same sum by other changes.
CREATE TABLE lexical_revisions (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    id             uuid NOT NULL DEFAULT gen_random_uuid(),
    revision       bigint NOT NULL,
    PRIMARY KEY (collection_id, id, tenant_id)
) WITH (fillfactor = 50);
SELECT sluice_protect('lexical_revisions');
GRANT SELECT, INSERT, UPDATE (revision) ON lexical_revisions TO sluice_app;

-- Once in a transaction is enough.
-- +goose StatementBegin
CREATE FUNCTION sluice_raise_lexical_revision(tenant uuid, collection uuid) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    step bigint := 1 + (random() * 4294967296)::bigint;
BEGIN
    IF EXISTS (SELECT FROM lexical_revisions WHERE tenant_id = tenant AND collection_id = collection AND xmin = pg_current_xact_id()::xid) THEN
        RETURN;
    END IF;
    UPDATE lexical_revisions SET revision = revision + step
    WHERE tenant_id = tenant AND collection_id = collection AND id = (
        SELECT id FROM lexical_revisions WHERE tenant_id = tenant AND collection_id = collection LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO lexical_revisions (tenant_id, collection_id, revision) VALUES (tenant, collection, step);
    END IF;
END
$$;

CREATE FUNCTION sluice_lexical_changed() RETURNS trigger LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM sluice_raise_lexical_revision(c.tenant_id, c.collection_id) FROM (SELECT DISTINCT tenant_id, collection_id FROM changed) c;
    RETURN NULL;
END
$$;

CREATE FUNCTION sluice_recipe_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sluice_raise_lexical_revision(NEW.tenant_id, NEW.id);
    RETURN NULL;
END
$$;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['lexical_segments', 'lexical_entries', 'clusterings'] LOOP
        -- A new entry is seen with its segment only.
        IF t <> 'lexical_entries' THEN
            EXECUTE format('CREATE TRIGGER changed_insert AFTER INSERT ON %I REFERENCING NEW TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION sluice_lexical_changed()', t);
        END IF;
        EXECUTE format('CREATE TRIGGER changed_update AFTER UPDATE ON %I REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION sluice_lexical_changed()', t);
        EXECUTE format('CREATE TRIGGER changed_delete AFTER DELETE ON %I REFERENCING OLD TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION sluice_lexical_changed()', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER recipe_changed AFTER UPDATE OF generation, language, deleted_at ON collections FOR EACH ROW
    WHEN ((OLD.generation, OLD.language, OLD.deleted_at) IS DISTINCT FROM (NEW.generation, NEW.language, NEW.deleted_at))
    EXECUTE FUNCTION sluice_recipe_changed();

-- What every search asks, in one call: it enters the tenant as the store's doors
-- do, for this transaction, and reads as the caller, under row-level security.
-- Its plan is made once per connection, by the key whatever the table holds then.
-- A collection that never changed, and one of another tenant, has revision 0.
-- +goose StatementBegin
CREATE FUNCTION sluice_lexical_revision(tenant uuid, collection uuid) RETURNS bigint LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    PERFORM set_config('sluice.tenant', tenant::text, true);
    RETURN (SELECT coalesce(sum(revision), 0)::bigint FROM public.lexical_revisions WHERE tenant_id = tenant AND collection_id = collection);
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_lexical_revision(uuid, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sluice_lexical_revision(uuid, uuid) TO sluice_app;

-- +goose Down
DROP TRIGGER recipe_changed ON collections;
-- +goose StatementBegin
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['lexical_segments', 'lexical_entries', 'clusterings'] LOOP
        EXECUTE format('DROP TRIGGER IF EXISTS changed_insert ON %I', t);
        EXECUTE format('DROP TRIGGER changed_update ON %I', t);
        EXECUTE format('DROP TRIGGER changed_delete ON %I', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP FUNCTION sluice_lexical_revision(uuid, uuid);
DROP FUNCTION sluice_recipe_changed();
DROP FUNCTION sluice_lexical_changed();
DROP FUNCTION sluice_raise_lexical_revision(uuid, uuid);
DROP TABLE lexical_revisions;
