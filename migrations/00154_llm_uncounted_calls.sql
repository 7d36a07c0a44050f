-- Calls to encoders and rerankers behind an API are paid like those to language models, but
-- limits of calls neither hold nor count them.

-- +goose Up
ALTER TABLE llm_reservations ADD counted boolean NOT NULL DEFAULT true;

-- +goose Down
ALTER TABLE llm_reservations DROP counted;
