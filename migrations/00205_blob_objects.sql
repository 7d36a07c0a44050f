-- Bytes of documents in S3, beside those in Postgres.

-- +goose Up
-- The object that has the bytes; null: blob_chunks has them.
ALTER TABLE blobs ADD COLUMN object uuid;
GRANT UPDATE (object) ON blobs TO sluice_app;

-- Objects that no row of blobs names: those that are being written, and those that
-- are to be deleted. An object's name is never used twice.
CREATE TABLE loose_objects (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    object     uuid NOT NULL,
    sha256     bytea NOT NULL CHECK (length(sha256) = 32),
    due_at     timestamptz NOT NULL,                -- purge deletes it from then on
    doomed     boolean NOT NULL DEFAULT false,      -- it is being deleted: no row may name it any more
    PRIMARY KEY (tenant_id, object)
);
CREATE INDEX loose_objects_due ON loose_objects (due_at);
SELECT sluice_protect('loose_objects');
GRANT SELECT, INSERT, UPDATE (due_at, doomed), DELETE ON loose_objects TO sluice_app;
-- Purge finds those of all tenants.
GRANT SELECT (tenant_id, object, due_at) ON loose_objects TO sluice_system;
CREATE POLICY system ON loose_objects FOR SELECT TO sluice_system USING (true);

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM blobs WHERE object IS NOT NULL) THEN
        RAISE EXCEPTION 'some documents have their bytes in S3: run sluice blobs move --to postgres first';
    END IF;
END
$$;
-- +goose StatementEnd
DROP TABLE loose_objects;
REVOKE UPDATE (object) ON blobs FROM sluice_app;
ALTER TABLE blobs DROP COLUMN object;
