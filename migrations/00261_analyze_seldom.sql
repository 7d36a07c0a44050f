-- A table is analysed when it has four times the pages of its last analysis, in place of twice: during a bulk load these
-- analyses took a twentieth of the database's processor time. What ingestion runs for each batch finds rows by their keys,
-- whatever the statistics are.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sluice_analyze_grown() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' SET default_statistics_target = 25 AS $$
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
          AND pg_relation_size(c.oid) / current_setting('block_size')::bigint > 4 * greatest(c.relpages, 0) + 16
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sluice_analyze_grown() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' SET default_statistics_target = 25 AS $$
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
            skipped := skipped || grown::oid;
        END;
    END LOOP;
END
$$;
-- +goose StatementEnd
