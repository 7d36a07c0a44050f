-- The plan that searches and questions of a collection run which name none. It may
-- be gone by then, as a tenant's own plans may be deleted: then the server's
-- default runs.

-- +goose Up
ALTER TABLE collections ADD plan text COLLATE "C" NOT NULL DEFAULT '' CHECK (octet_length(plan) <= 64);

-- +goose Down
ALTER TABLE collections DROP plan;
