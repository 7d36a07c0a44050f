-- Tenants that were erased, or are being: what stays of one is its id and name, and how much went.

-- +goose Up
-- No tenant column: it outlives the tenant. Only an administrator of the database reads and writes it.
CREATE TABLE erasures (
    id           uuid PRIMARY KEY,                  -- of the tenant
    name         text NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,
    removed      jsonb NOT NULL DEFAULT '{}',       -- rows, by table
    objects      bigint NOT NULL DEFAULT 0,         -- removed from S3
    bytes        bigint NOT NULL DEFAULT 0          -- of documents
);

-- +goose Down
DROP TABLE erasures;
