-- What a tenant has stored, counted as it changes, for its quotas: an upload does
-- not go through what is there. Every statement that changes documents or blobs
-- leaves what it changed, as rows that nobody waits for; these are added up now and
-- then, and whoever reads adds up the rest. A tenant is counted once in full, and
-- again from time to time.

-- +goose Up
CREATE TABLE tenant_counts (
    tenant_id   uuid NOT NULL PRIMARY KEY REFERENCES tenants,
    documents   bigint NOT NULL,  -- that are not deleted
    bytes       bigint NOT NULL,  -- of blobs
    counted_at  timestamptz       -- in full; null: not yet, and these are not all
);
SELECT sluice_protect('tenant_counts');
GRANT SELECT, INSERT, UPDATE ON tenant_counts TO sluice_app;
GRANT SELECT, INSERT, UPDATE (documents, bytes) ON tenant_counts TO sluice_system;
CREATE POLICY system ON tenant_counts TO sluice_system USING (true) WITH CHECK (true);

CREATE TABLE tenant_changes (
    tenant_id   uuid NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    documents   bigint NOT NULL,
    bytes       bigint NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
SELECT sluice_protect('tenant_changes');
GRANT SELECT, INSERT ON tenant_changes TO sluice_app;
GRANT SELECT, DELETE ON tenant_changes TO sluice_system;
-- FOR UPDATE SKIP LOCKED needs the right to update one column.
GRANT UPDATE (bytes) ON tenant_changes TO sluice_system;
CREATE POLICY system ON tenant_changes TO sluice_system USING (true) WITH CHECK (true);

-- +goose StatementBegin
CREATE FUNCTION sluice_documents_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenant_changes (tenant_id, documents, bytes)
    SELECT tenant_id, count(*), 0 FROM after WHERE deleted_at IS NULL GROUP BY tenant_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_documents_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenant_changes (tenant_id, documents, bytes)
    SELECT tenant_id, sum(n), 0
    FROM (SELECT 1 AS n, tenant_id FROM after WHERE deleted_at IS NULL UNION ALL SELECT -1, tenant_id FROM before WHERE deleted_at IS NULL) AS d
    GROUP BY tenant_id HAVING sum(n) <> 0;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_documents_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenant_changes (tenant_id, documents, bytes)
    SELECT tenant_id, -count(*), 0 FROM before WHERE deleted_at IS NULL GROUP BY tenant_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_blobs_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenant_changes (tenant_id, documents, bytes)
    SELECT tenant_id, 0, sum(bytes) FROM after GROUP BY tenant_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION sluice_blobs_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenant_changes (tenant_id, documents, bytes)
    SELECT tenant_id, 0, -sum(bytes) FROM before GROUP BY tenant_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER count_added AFTER INSERT ON documents REFERENCING NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_documents_added();
CREATE TRIGGER count_changed AFTER UPDATE ON documents REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_documents_changed();
CREATE TRIGGER count_removed AFTER DELETE ON documents REFERENCING OLD TABLE AS before
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_documents_removed();
CREATE TRIGGER count_added AFTER INSERT ON blobs REFERENCING NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_blobs_added();
CREATE TRIGGER count_removed AFTER DELETE ON blobs REFERENCING OLD TABLE AS before
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_blobs_removed();

-- +goose Down
DROP TRIGGER count_removed ON blobs;
DROP TRIGGER count_added ON blobs;
DROP TRIGGER count_removed ON documents;
DROP TRIGGER count_changed ON documents;
DROP TRIGGER count_added ON documents;
DROP FUNCTION sluice_blobs_removed();
DROP FUNCTION sluice_blobs_added();
DROP FUNCTION sluice_documents_removed();
DROP FUNCTION sluice_documents_changed();
DROP FUNCTION sluice_documents_added();
DROP TABLE tenant_changes, tenant_counts;
