-- What people think of answers: one rating of a question by each key.

-- +goose Up
CREATE TABLE ratings (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,              -- what lists go by
    question_id  uuid NOT NULL,
    key_id       uuid NOT NULL,
    rating       text NOT NULL CHECK (rating IN ('up', 'down')),
    comment      text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, question_id, key_id),
    UNIQUE (tenant_id, id),
    FOREIGN KEY (tenant_id, question_id) REFERENCES questions ON DELETE CASCADE
);
SELECT sluice_protect('ratings');
GRANT SELECT, INSERT, DELETE, UPDATE (rating, comment, updated_at) ON ratings TO sluice_app;

-- +goose Down
DROP TABLE ratings;
