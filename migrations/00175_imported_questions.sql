-- Questions with known answers that were imported into a collection, for choices of its
-- plan to ask.

-- +goose Up
CREATE TABLE imported_questions (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    hash           bytea NOT NULL, -- of the question and of its answers, as in taught_questions
    question       text NOT NULL,
    answers        text[] NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, collection_id, hash),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections ON DELETE CASCADE
);
SELECT sluice_protect('imported_questions');
GRANT SELECT, INSERT, DELETE ON imported_questions TO sluice_app;

-- +goose Down
DROP TABLE imported_questions;
