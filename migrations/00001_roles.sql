-- Roles. sluice_app is bound to one tenant by row-level security; sluice_auth
-- reads keys; sluice_system moves outbox rows, leases and version states of
-- all tenants. None owns a table and none can bypass row-level security.
-- Roles belong to the whole server: another database's migration may be
-- creating them right now.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['sluice_app', 'sluice_auth', 'sluice_system'] LOOP
        -- Where an administrator made the roles, the owner need not be able to.
        IF to_regrole(name) IS NOT NULL THEN
            IF NOT pg_has_role(current_user, name, 'MEMBER') THEN
                EXECUTE format('GRANT %I TO CURRENT_USER', name);
            END IF;
            CONTINUE;
        END IF;
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT', name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
        BEGIN
            EXECUTE format('GRANT %I TO CURRENT_USER', name);
        EXCEPTION WHEN unique_violation OR invalid_grant_operation THEN
            NULL;
        END;
    END LOOP;
END
$$;
-- +goose StatementEnd

CREATE EXTENSION IF NOT EXISTS vector;

-- Puts a tenant's table under row-level security. Partitions get it too, and
-- no grant of their own: they are reached through their parent. A reused
-- connection has the setting as an empty string, hence nullif.
-- +goose StatementBegin
CREATE FUNCTION sluice_protect(tbl regclass, tenant_column text DEFAULT 'tenant_id') RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    part regclass;
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tbl);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', tbl);
    EXECUTE format(
        'CREATE POLICY tenant ON %s TO sluice_app USING (%2$I = nullif(current_setting(''sluice.tenant'', true), '''')::uuid) '
        'WITH CHECK (%2$I = nullif(current_setting(''sluice.tenant'', true), '''')::uuid)', tbl, tenant_column);
    FOR part IN SELECT relid FROM pg_partition_tree(tbl) WHERE relid <> tbl LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', part);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', part);
    END LOOP;
END
$$;
-- +goose StatementEnd

GRANT USAGE ON SCHEMA public TO sluice_app, sluice_auth, sluice_system;

-- +goose Down
DROP FUNCTION sluice_protect(regclass, text);
