-- Whose labelled documents the answers that a webhook gets may be made from.

-- +goose Up
ALTER TABLE webhooks ADD groups text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE webhooks DROP groups;
