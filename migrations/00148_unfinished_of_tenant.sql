-- What waits of one tenant: counted for it, and looked through for what was
-- lost on the way. Without it, and without statistics, a plan joins the index of
-- all that waits with the whole primary key of the tenant.

-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX IF EXISTS versions_unfinished_of_tenant; -- one that was left half built
CREATE INDEX CONCURRENTLY versions_unfinished_of_tenant ON versions (tenant_id, queued_at) WHERE state IN ('received', 'queued', 'processing');

-- +goose Down
DROP INDEX versions_unfinished_of_tenant;
