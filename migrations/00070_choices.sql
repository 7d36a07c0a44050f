-- What a multiple-choice question is answered from, in order; none: the answer
-- is free.

-- +goose Up
ALTER TABLE questions ADD choices text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE questions DROP choices;
