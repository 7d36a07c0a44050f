-- The part of a quote that answers by itself, in bytes of the quote.

-- +goose Up
ALTER TABLE citations
    ADD answer_start int NOT NULL DEFAULT 0,
    ADD answer_end int NOT NULL DEFAULT 0, -- 0: none was read out of it
    ADD confidence double precision NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE citations DROP answer_start, DROP answer_end, DROP confidence;
