-- Sluice's own models cost nobody anything: what they count is kept apart, and the
-- limits of calls hold for theirs apart from those of language models.

-- +goose Up
ALTER TABLE llm_calls
    ADD own_input_tokens int NOT NULL DEFAULT 0,    -- of input_tokens
    ADD own_output_tokens int NOT NULL DEFAULT 0,   -- of output_tokens
    ADD own_nanos bigint NOT NULL DEFAULT 0;        -- of nanos: nominal
ALTER TABLE llm_search_calls
    ADD own_input_tokens int NOT NULL DEFAULT 0,
    ADD own_output_tokens int NOT NULL DEFAULT 0,
    ADD own_nanos bigint NOT NULL DEFAULT 0;
ALTER TABLE llm_reservations ADD own boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE llm_reservations DROP own;
ALTER TABLE llm_search_calls DROP own_input_tokens, DROP own_output_tokens, DROP own_nanos;
ALTER TABLE llm_calls DROP own_input_tokens, DROP own_output_tokens, DROP own_nanos;
