-- Old rows of the ledger of language model calls go. The system sees which call a
-- row is of and when it was, nothing of what was asked or said.

-- +goose Up
GRANT SELECT (tenant_id, question_id, round, step, item, created_at), DELETE ON llm_calls TO sluice_system;
CREATE POLICY system ON llm_calls TO sluice_system USING (true) WITH CHECK (true);
GRANT SELECT (tenant_id, id, created_at), DELETE ON llm_search_calls TO sluice_system;
CREATE POLICY system ON llm_search_calls TO sluice_system USING (true) WITH CHECK (true);
GRANT SELECT (tenant_id, day), DELETE ON llm_days TO sluice_system;
CREATE POLICY system ON llm_days TO sluice_system USING (true) WITH CHECK (true);

-- +goose Down
DROP POLICY system ON llm_days;
REVOKE ALL (tenant_id, day) ON llm_days FROM sluice_system;
REVOKE DELETE ON llm_days FROM sluice_system;
DROP POLICY system ON llm_search_calls;
REVOKE ALL (tenant_id, id, created_at) ON llm_search_calls FROM sluice_system;
REVOKE DELETE ON llm_search_calls FROM sluice_system;
DROP POLICY system ON llm_calls;
REVOKE ALL (tenant_id, question_id, round, step, item, created_at) ON llm_calls FROM sluice_system;
REVOKE DELETE ON llm_calls FROM sluice_system;
