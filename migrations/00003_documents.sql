-- Collections, documents, versions and their bytes; the outbox and leases that
-- move them.

-- +goose Up
CREATE TABLE collections (
    tenant_id     uuid NOT NULL REFERENCES tenants,
    id            uuid NOT NULL,
    name          text NOT NULL CHECK (name ~ '^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$'),
    description   text NOT NULL DEFAULT '',
    language      text NOT NULL DEFAULT 'en',
    segmentation  text NOT NULL DEFAULT 'sage' CHECK (segmentation IN ('sage')),
    -- The embedding space of its vectors; null until the first version is ready.
    space_id      int,
    generation    int NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX collections_name ON collections (tenant_id, name) WHERE deleted_at IS NULL;
SELECT sluice_protect('collections');
GRANT SELECT, INSERT, UPDATE, DELETE ON collections TO sluice_app;

-- An embedding space is one model's vectors. The same for all tenants.
CREATE TABLE spaces (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    dimension  int NOT NULL CHECK (dimension BETWEEN 1 AND 4000)
);
GRANT SELECT, INSERT ON spaces TO sluice_app;
ALTER TABLE collections ADD FOREIGN KEY (space_id) REFERENCES spaces;

CREATE TABLE blobs (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    sha256      bytea NOT NULL CHECK (length(sha256) = 32),
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, sha256)
);
SELECT sluice_protect('blobs');
GRANT SELECT, INSERT, DELETE ON blobs TO sluice_app;

CREATE TABLE blob_chunks (
    tenant_id  uuid NOT NULL,
    sha256     bytea NOT NULL,
    ordinal    int NOT NULL,
    data       bytea NOT NULL CHECK (length(data) <= 1048576),
    PRIMARY KEY (tenant_id, sha256, ordinal),
    FOREIGN KEY (tenant_id, sha256) REFERENCES blobs ON DELETE CASCADE
);
ALTER TABLE blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
SELECT sluice_protect('blob_chunks');
GRANT SELECT, INSERT, DELETE ON blob_chunks TO sluice_app;

CREATE TABLE documents (
    tenant_id        uuid NOT NULL REFERENCES tenants,
    id               uuid NOT NULL,
    collection_id    uuid NOT NULL,
    external_id      text NOT NULL CHECK (length(external_id) BETWEEN 1 AND 1024),
    live_version_id  uuid,                      -- the version that answers questions
    last_version_id  uuid,                      -- the newest version
    last_number      int NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    deleted_at       timestamptz,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, collection_id, external_id),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections
);
CREATE INDEX documents_page ON documents (tenant_id, collection_id, id) WHERE deleted_at IS NULL;
SELECT sluice_protect('documents');
GRANT SELECT, INSERT, UPDATE, DELETE ON documents TO sluice_app;

CREATE TABLE versions (
    tenant_id       uuid NOT NULL,
    id              uuid NOT NULL,
    document_id     uuid NOT NULL,
    collection_id   uuid NOT NULL,
    number          int NOT NULL,
    state           text NOT NULL CHECK (state IN
                    ('received', 'queued', 'processing', 'ready', 'failed', 'superseded', 'cancelled')),
    reason_code     text,
    reason          text,
    title           text NOT NULL DEFAULT '',
    media_type      text NOT NULL DEFAULT '',   -- as found by the parser; before, as given
    sha256          bytea NOT NULL,
    bytes           bigint NOT NULL,
    fingerprint     text NOT NULL,              -- of bytes and attributes
    metadata        jsonb,                      -- as uploaded
    pages           int NOT NULL DEFAULT 0,
    section_count   int NOT NULL DEFAULT 0,
    passage_count   int NOT NULL DEFAULT 0,
    warnings        text[],
    attempt         int NOT NULL DEFAULT 1,     -- rises in the transaction that queues
    parses          int NOT NULL DEFAULT 0,     -- parses begun; counted before parsing
    trace           text,                       -- traceparent of the request that queued it
    created_at      timestamptz NOT NULL DEFAULT now(),
    queued_at       timestamptz,
    finished_at     timestamptz,
    -- When its sections, passages and vectors were purged.
    purged_at       timestamptz,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, document_id, number),
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents ON DELETE CASCADE,
    CHECK ((state = 'failed') = (reason_code IS NOT NULL))
);
CREATE INDEX versions_unfinished ON versions (queued_at) WHERE state IN ('received', 'queued', 'processing');
CREATE INDEX versions_collection ON versions (tenant_id, collection_id, state);
CREATE INDEX versions_purge ON versions (finished_at) WHERE state IN ('superseded', 'cancelled') AND purged_at IS NULL;
CREATE INDEX versions_blob ON versions (tenant_id, sha256);
SELECT sluice_protect('versions');
GRANT SELECT, INSERT, UPDATE, DELETE ON versions TO sluice_app;
GRANT SELECT, UPDATE ON versions TO sluice_system;
CREATE POLICY system ON versions TO sluice_system USING (true) WITH CHECK (true);

-- Labels: who may see a version. None: everyone in the tenant.
CREATE TABLE version_labels (
    tenant_id   uuid NOT NULL,
    version_id  uuid NOT NULL,
    label       text NOT NULL CHECK (length(label) BETWEEN 1 AND 256),
    PRIMARY KEY (tenant_id, version_id, label),
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions ON DELETE CASCADE
);
SELECT sluice_protect('version_labels');
GRANT SELECT, INSERT, UPDATE, DELETE ON version_labels TO sluice_app;

-- Filterable metadata, one row per value. Every value has a text form; whole
-- numbers and times also have theirs, for ranges.
CREATE TABLE version_metadata (
    tenant_id   uuid NOT NULL,
    version_id  uuid NOT NULL,
    key         text NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
    ordinal     int NOT NULL,
    text_value  text NOT NULL,
    int_value   bigint,
    time_value  timestamptz,
    PRIMARY KEY (tenant_id, version_id, key, ordinal),
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions ON DELETE CASCADE
);
CREATE INDEX version_metadata_text ON version_metadata (tenant_id, key, text_value text_pattern_ops);
CREATE INDEX version_metadata_int ON version_metadata (tenant_id, key, int_value) WHERE int_value IS NOT NULL;
CREATE INDEX version_metadata_time ON version_metadata (tenant_id, key, time_value) WHERE time_value IS NOT NULL;
SELECT sluice_protect('version_metadata');
GRANT SELECT, INSERT, UPDATE, DELETE ON version_metadata TO sluice_app;

-- Messages to publish, written with the change they tell of.
CREATE TABLE outbox (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    subject     text NOT NULL,
    message_id  text NOT NULL,
    payload     jsonb NOT NULL,
    trace       text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id)
);
SELECT sluice_protect('outbox');
GRANT INSERT, SELECT ON outbox TO sluice_app;
GRANT SELECT, DELETE ON outbox TO sluice_system;
-- FOR UPDATE SKIP LOCKED needs the right to update one column.
GRANT UPDATE (created_at) ON outbox TO sluice_system;
CREATE POLICY system ON outbox TO sluice_system USING (true) WITH CHECK (true);
-- +goose StatementBegin
CREATE FUNCTION sluice_outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY sluice_outbox;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER wake AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION sluice_outbox_wake();

-- Who works on a version, or on a question, and until when.
CREATE TABLE leases (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    subject_id  uuid NOT NULL,                  -- version or question
    kind        text NOT NULL CHECK (kind IN ('version', 'question')),
    attempt     int NOT NULL,
    holder      text NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, subject_id)
);
CREATE INDEX leases_expiry ON leases (expires_at);
SELECT sluice_protect('leases');
GRANT SELECT, INSERT, UPDATE, DELETE ON leases TO sluice_app, sluice_system;
CREATE POLICY system ON leases TO sluice_system USING (true) WITH CHECK (true);

-- +goose Down
DROP TABLE leases, outbox, version_metadata, version_labels, versions, documents, blob_chunks, blobs, spaces, collections CASCADE;
DROP FUNCTION sluice_outbox_wake();
