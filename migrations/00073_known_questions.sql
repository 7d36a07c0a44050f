-- Which questions a language model answers rightly without retrieval (FIT-RAG): what
-- the nearest of them say decides whether another one needs it.

-- +goose Up
CREATE TABLE known_questions (
    tenant_id    uuid NOT NULL,
    question_id  uuid NOT NULL,
    -- Whether an answer without retrieval agreed with the cited one; NULL until it
    -- was asked for, at due_at, some times at most.
    known        boolean,
    tries        int NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL DEFAULT now(),
    space        text,
    vector       vector, -- of the question, in the space
    PRIMARY KEY (tenant_id, question_id),
    FOREIGN KEY (tenant_id, question_id) REFERENCES questions ON DELETE CASCADE,
    CHECK ((known IS NULL) = (vector IS NULL) AND (known IS NULL) = (space IS NULL))
);
CREATE INDEX known_questions_due ON known_questions (due_at) WHERE known IS NULL;
SELECT sluice_protect('known_questions');
GRANT SELECT, INSERT, UPDATE, DELETE ON known_questions TO sluice_app;
GRANT SELECT (tenant_id, question_id, known, tries, due_at), UPDATE (tries, due_at) ON known_questions TO sluice_system;
CREATE POLICY system ON known_questions TO sluice_system USING (true) WITH CHECK (true);

-- +goose Down
DROP TABLE known_questions;
