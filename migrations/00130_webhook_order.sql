-- What a webhook is to hear next is found endpoint by endpoint, answers before
-- documents.

-- +goose Up
GRANT SELECT (kind) ON webhook_deliveries TO sluice_system;

-- +goose Down
REVOKE SELECT (kind) ON webhook_deliveries FROM sluice_system;
