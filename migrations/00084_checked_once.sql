-- What ingestion writes is not checked row by row for what its transaction knows
-- already. Sections are written under the lock of their version, outbox rows by
-- the tenant that the transaction has entered, as row-level security checks; no
-- role of the program may delete a tenant. Each of these foreign keys cost more
-- than writing the row's own indexes.

-- +goose Up
ALTER TABLE sections DROP CONSTRAINT sections_tenant_id_version_id_fkey;
ALTER TABLE outbox DROP CONSTRAINT outbox_tenant_id_fkey;

-- A version that goes takes its sections along, as before.
-- +goose StatementBegin
CREATE FUNCTION sluice_drop_sections() RETURNS trigger LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM sections WHERE tenant_id = OLD.tenant_id AND version_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER drop_sections AFTER DELETE ON versions FOR EACH ROW EXECUTE FUNCTION sluice_drop_sections();

-- What curation has not taken note of needs no forgetting.
DROP TRIGGER uncurate ON versions;
CREATE TRIGGER uncurate BEFORE UPDATE OF state ON versions FOR EACH ROW
    WHEN (NEW.curated AND OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION sluice_uncurate();

-- +goose Down
DROP TRIGGER uncurate ON versions;
CREATE TRIGGER uncurate BEFORE UPDATE OF state ON versions FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION sluice_uncurate();
DROP TRIGGER drop_sections ON versions;
DROP FUNCTION sluice_drop_sections();
ALTER TABLE outbox ADD CONSTRAINT outbox_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants;
ALTER TABLE sections ADD CONSTRAINT sections_tenant_id_version_id_fkey
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions ON DELETE CASCADE;
