-- Rounds of selection and generation, and how each answer was judged (SAGE).

-- +goose Up
ALTER TABLE retrievals
    ADD min_k int NOT NULL DEFAULT 0,               -- of the selection; 0: the plan's answers are not judged
    ADD skipped boolean NOT NULL DEFAULT false,     -- the answer is made without what was found
    ADD pool jsonb,                                 -- of the first round: what later ones select from, without text
    ADD verdict jsonb;                              -- of the round's answer
ALTER TABLE answers
    ADD rounds int NOT NULL DEFAULT 1,
    ADD uncited boolean NOT NULL DEFAULT false;     -- from what the model knows, without documents

-- +goose Down
ALTER TABLE answers DROP rounds, DROP uncited;
ALTER TABLE retrievals DROP min_k, DROP skipped, DROP pool, DROP verdict;
