-- A call to a language model that was cancelled is in the ledger with what was used of
-- it. It has no reply: the step may be asked for again, and its reply takes the row.

-- +goose Up
ALTER TABLE llm_calls ADD outcome text NOT NULL DEFAULT 'answered' CHECK (outcome IN ('answered', 'cancelled'));
ALTER TABLE llm_search_calls ADD outcome text NOT NULL DEFAULT 'answered' CHECK (outcome IN ('answered', 'cancelled'));
GRANT UPDATE (task, provider, model, input_tokens, output_tokens, millis, request_hash, nanos, cached,
    own_input_tokens, own_output_tokens, own_nanos, outcome, created_at) ON llm_calls TO sluice_app;

-- +goose Down
REVOKE UPDATE (task, provider, model, input_tokens, output_tokens, millis, request_hash, nanos, cached,
    own_input_tokens, own_output_tokens, own_nanos, outcome, created_at) ON llm_calls FROM sluice_app;
DELETE FROM llm_search_calls WHERE outcome = 'cancelled';
DELETE FROM llm_calls WHERE outcome = 'cancelled';
ALTER TABLE llm_search_calls DROP outcome;
ALTER TABLE llm_calls DROP outcome;
