-- The most tokens that the clusters of a collection have: FunnelRAG's S.

-- +goose Up
ALTER TABLE collections ADD cluster_tokens int NOT NULL DEFAULT 4000 CHECK (cluster_tokens BETWEEN 1000 AND 64000);

-- +goose Down
ALTER TABLE collections DROP cluster_tokens;
