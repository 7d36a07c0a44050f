-- +goose NO TRANSACTION

-- Events go on while it is built. The index before it, of whole tenants, has no
-- use: this one begins with the tenant, too.

-- +goose Up
DROP INDEX IF EXISTS webhook_deliveries_next; -- one that was left half built
CREATE INDEX CONCURRENTLY webhook_deliveries_next ON webhook_deliveries (tenant_id, webhook_id, (kind LIKE 'version.%'), next_at)
    WHERE state = 'waiting';
DROP INDEX IF EXISTS webhook_deliveries_due;

-- +goose Down
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant_id, next_at) WHERE state = 'waiting';
DROP INDEX webhook_deliveries_next;
