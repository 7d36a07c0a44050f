-- The MinHash signatures of live versions, and the keys by which those of near-duplicates find each other (internal/minhash). A version
-- that was written before there were any has none; one too short to be compared has an empty one, without keys.

-- +goose Up
CREATE TABLE document_signatures (
    tenant_id      uuid NOT NULL,
    version_id     uuid NOT NULL,
    collection_id  uuid NOT NULL,
    signature      bytea NOT NULL,
    keys           bigint[] NOT NULL,
    paired         boolean NOT NULL DEFAULT false, -- a key of it was another version's too
    PRIMARY KEY (tenant_id, version_id),
    FOREIGN KEY (tenant_id, version_id) REFERENCES versions ON DELETE CASCADE
);
-- Tells a query whether its collection has near-duplicates at all.
CREATE INDEX document_signatures_paired ON document_signatures (tenant_id, collection_id) WHERE paired;
SELECT sluice_protect('document_signatures');
GRANT SELECT, INSERT, UPDATE, DELETE ON document_signatures TO sluice_app;

CREATE TABLE document_signature_keys (
    tenant_id      uuid NOT NULL,
    key            bigint NOT NULL, -- of the collection alone
    version_id     uuid NOT NULL,
    PRIMARY KEY (tenant_id, key, version_id)
);
SELECT sluice_protect('document_signature_keys');
GRANT SELECT, INSERT, DELETE ON document_signature_keys TO sluice_app;

-- What a note says of a deleted document goes with it.
GRANT UPDATE (notes) ON answers TO sluice_app;

-- +goose Down
REVOKE UPDATE (notes) ON answers FROM sluice_app;
DROP TABLE document_signature_keys, document_signatures;
