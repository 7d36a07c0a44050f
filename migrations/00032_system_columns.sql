-- sluice_system sees all tenants, so it gets columns, not tables: none of text,
-- titles or metadata, of questions, or of replies. Whoever adds a column that
-- it needs grants it that one.

-- +goose Up
REVOKE SELECT, UPDATE ON versions, questions, artifacts, idempotency FROM sluice_system;
GRANT SELECT (tenant_id, id, document_id, collection_id, number, state, bytes, passage_count, attempt, losses, trace,
              queued_at, finished_at, retired_at, purged_at),
      UPDATE (state, attempt, losses, reason_code, reason, queued_at, finished_at) ON versions TO sluice_system;
GRANT SELECT (tenant_id, id, collection_id, async, state, attempt, trace, created_at, queued_at),
      UPDATE (state, stage, attempt, reason_code, reason, queued_at, finished_at) ON questions TO sluice_system;
GRANT SELECT (tenant_id, version_id, attempt, stage, created_at) ON artifacts TO sluice_system;
GRANT SELECT (tenant_id, key, created_at) ON idempotency TO sluice_system;

-- Replies kept so far may hold keys and documents' text. Row-level security
-- hides the rows from the owner's DELETE.
TRUNCATE idempotency;

-- +goose Down
GRANT SELECT, UPDATE ON versions, questions TO sluice_system;
GRANT SELECT ON artifacts, idempotency TO sluice_system;
