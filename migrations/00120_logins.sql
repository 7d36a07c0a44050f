-- Programs log in as roles that own nothing. What they need of the owner are
-- three functions: statistics of tables that grew, and partitions of vectors.
-- These partitions are owned by sluice_vectors, in a schema of their own, for
-- an index can't be built concurrently in a function; nothing else is.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    -- Where an administrator made the role, the owner need not be able to.
    IF to_regrole('sluice_vectors') IS NULL THEN
        BEGIN
            CREATE ROLE sluice_vectors NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database's migration just did
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'role sluice_vectors is missing, and % may not make it: have an administrator run '
                    'CREATE ROLE sluice_vectors NOLOGIN NOINHERIT; GRANT sluice_vectors TO %;', current_user, quote_ident(current_user);
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'sluice_vectors', 'MEMBER') THEN
        BEGIN
            GRANT sluice_vectors TO CURRENT_USER;
        EXCEPTION WHEN unique_violation OR invalid_grant_operation THEN
            NULL;
        END;
    END IF;
    -- Before PostgreSQL 15 everyone may create there.
    EXECUTE 'REVOKE CREATE ON SCHEMA public FROM PUBLIC';
    EXECUTE format('REVOKE CREATE ON DATABASE %I FROM PUBLIC', current_database());
END
$$;
-- +goose StatementEnd

CREATE SCHEMA sluice_vectors;
GRANT USAGE, CREATE ON SCHEMA sluice_vectors TO sluice_vectors;
GRANT USAGE ON SCHEMA public TO sluice_vectors;

-- The partitions that there are.
-- +goose StatementBegin
DO $$
DECLARE
    part record;
BEGIN
    FOR part IN SELECT c.relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relname ~ '^vectors_[0-9]+_[0-9a-f]{32}$'
    LOOP
        EXECUTE format('ALTER TABLE public.%I SET SCHEMA sluice_vectors', part.relname);
        EXECUTE format('ALTER TABLE sluice_vectors.%I OWNER TO sluice_vectors', part.relname);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- The functions below see which partitions there should be.
CREATE POLICY owner ON vector_shards FOR SELECT TO CURRENT_USER USING (true);

-- Analyses the table that outgrew its statistics most, and names it; null when
-- none did, or another process is at it. Tables of twice the pages that they had
-- then are worth it: so a table that grows for ever is analysed seldom.
-- +goose StatementBegin
CREATE FUNCTION sluice_analyze_grown() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    grown regclass;
    skipped oid[] := '{}';
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('sluice analyze', 0)) THEN
        RETURN NULL;
    END IF;
    LOOP
        SELECT c.oid::regclass INTO grown FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
          AND c.oid <> ALL (skipped)
          AND pg_relation_size(c.oid) / current_setting('block_size')::bigint > 2 * greatest(c.relpages, 0) + 16
        ORDER BY pg_relation_size(c.oid) / (greatest(c.relpages, 0) + 16) DESC LIMIT 1;
        IF grown IS NULL THEN
            RETURN NULL;
        END IF;
        BEGIN
            EXECUTE format('ANALYZE %s', grown);
            RETURN grown;
        EXCEPTION WHEN lock_not_available THEN
            skipped := skipped || grown::oid; -- an index is being built on it, or it is vacuumed, which tells the same
        END;
    END LOOP;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_analyze_grown() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sluice_analyze_grown() TO sluice_system;

-- Makes the partition of a shard that vector_shards has, empty. The parent is
-- locked against other changes of its partitions alone.
-- +goose StatementBegin
CREATE FUNCTION sluice_attach_vectors(shard uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    parent text;
    part text;
BEGIN
    SELECT 'vectors_' || h.dimension INTO parent FROM public.vector_shards h WHERE h.id = shard AND h.retired_at IS NULL;
    IF parent IS NULL THEN
        RAISE EXCEPTION 'no shard % is in use', shard USING ERRCODE = 'no_data_found';
    END IF;
    part := parent || '_' || replace(shard::text, '-', '');
    EXECUTE format('CREATE TABLE sluice_vectors.%I (LIKE public.%I INCLUDING DEFAULTS INCLUDING STORAGE)', part, parent);
    EXECUTE format('ALTER TABLE sluice_vectors.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
    EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION sluice_vectors.%I FOR VALUES IN (%L)', parent, part, shard);
    EXECUTE format('ALTER TABLE sluice_vectors.%I OWNER TO sluice_vectors', part);
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_attach_vectors(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sluice_attach_vectors(uuid) TO sluice_vectors;

-- Drops the partition of a shard that is retired. Detaching concurrently is not
-- for functions, so this waits for the parent's lock, but so shortly that
-- no search notices: who doesn't get it comes again.
-- +goose StatementBegin
CREATE FUNCTION sluice_drop_vectors(shard uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    part text;
BEGIN
    SELECT format('vectors_%s_%s', h.dimension, replace(shard::text, '-', '')) INTO part
    FROM public.vector_shards h WHERE h.id = shard AND h.retired_at IS NOT NULL;
    IF part IS NULL THEN
        RAISE EXCEPTION 'no shard % is retired', shard USING ERRCODE = 'no_data_found';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS sluice_vectors.%I', part);
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_drop_vectors(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sluice_drop_vectors(uuid) TO sluice_vectors;

-- +goose Down
DROP FUNCTION sluice_analyze_grown(), sluice_attach_vectors(uuid), sluice_drop_vectors(uuid);
DROP POLICY owner ON vector_shards;
-- +goose StatementBegin
DO $$
DECLARE
    part record;
BEGIN
    FOR part IN SELECT c.relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE c.relnamespace = 'sluice_vectors'::regnamespace AND c.relkind = 'r'
    LOOP
        EXECUTE format('ALTER TABLE sluice_vectors.%I OWNER TO CURRENT_USER', part.relname);
        EXECUTE format('ALTER TABLE sluice_vectors.%I SET SCHEMA public', part.relname);
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP SCHEMA sluice_vectors CASCADE;
