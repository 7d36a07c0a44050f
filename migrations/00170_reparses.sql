-- Runs in which a collection's documents are parsed again from the bytes that are
-- stored, and what became of each document.

-- +goose Up
CREATE TABLE reparses (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    number         int NOT NULL CHECK (number > 0),
    state          text NOT NULL CHECK (state IN ('running', 'done', 'cancelled')),
    total          int NOT NULL,               -- documents that were live when it was asked for
    created_at     timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,
    PRIMARY KEY (collection_id, number, tenant_id),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections (tenant_id, id)
);
CREATE UNIQUE INDEX reparses_running ON reparses (collection_id, tenant_id) WHERE state = 'running';
SELECT sluice_protect('reparses');
GRANT SELECT, INSERT, UPDATE, DELETE ON reparses TO sluice_app;
-- The reconciler finds what nobody works on.
GRANT SELECT (tenant_id, collection_id, number, state, created_at) ON reparses TO sluice_system;
CREATE POLICY system ON reparses FOR SELECT TO sluice_system USING (true);

CREATE TABLE reparsed_documents (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    number         int NOT NULL,
    document_id    uuid NOT NULL,
    outcome        text NOT NULL CHECK (outcome IN ('parsing', 'unchanged', 'changed', 'failed')),
    parses         int NOT NULL DEFAULT 0,     -- begun, and not taken back by a worker that lives
    version_id     uuid,                       -- the new one of a document that changed
    reason_code    text,                       -- of a failure
    reason         text,
    PRIMARY KEY (collection_id, number, document_id, tenant_id),
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents (tenant_id, id) ON DELETE CASCADE,
    CHECK ((outcome = 'failed') = (reason_code IS NOT NULL)),
    CHECK ((outcome = 'changed') = (version_id IS NOT NULL))
);
CREATE INDEX reparsed_documents_document ON reparsed_documents (tenant_id, document_id);
SELECT sluice_protect('reparsed_documents');
GRANT SELECT, INSERT, UPDATE, DELETE ON reparsed_documents TO sluice_app;

-- +goose Down
DROP TABLE reparsed_documents, reparses;
