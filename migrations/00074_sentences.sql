-- What proves which sentence of an answer, and the choice that was made.

-- +goose Up
ALTER TABLE answers
    ADD sentences jsonb NOT NULL DEFAULT '[]',
    ADD choice int NOT NULL DEFAULT 0; -- from 1; 0: none
-- Purging a deleted version leaves nothing that was said of its text.
GRANT UPDATE (sentences, choice) ON answers TO sluice_app;

-- +goose Down
ALTER TABLE answers DROP sentences, DROP choice;
