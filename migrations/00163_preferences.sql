-- What is learnt of a language model from questions with known answers (FIT-RAG): which
-- it answers rightly without retrieval, from which texts it answers rightly, and the head
-- that tells such texts. No text is kept, only hashes.

-- +goose Up
CREATE TABLE taught_questions (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    question       bytea NOT NULL, -- hash of it and of its answers
    model          text NOT NULL,  -- provider/model that was asked
    known          boolean NOT NULL, -- it was right without retrieval
    space          text NOT NULL,
    vector         vector NOT NULL, -- of the question, in the space
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, collection_id, model, question),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections ON DELETE CASCADE
);
CREATE INDEX taught_questions_of_model ON taught_questions (tenant_id, model);
SELECT sluice_protect('taught_questions');
GRANT SELECT, INSERT, UPDATE, DELETE ON taught_questions TO sluice_app;

CREATE TABLE preference_labels (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    question       bytea NOT NULL,
    model          text NOT NULL,
    passage        bytea NOT NULL, -- hash of the text as the pair model reads it
    version_id     uuid NOT NULL,  -- that it is of: with its text the label goes
    has_answer     boolean NOT NULL,
    preferred      boolean NOT NULL, -- right from the text, and not without
    graph          text NOT NULL,  -- the pair graph whose the features are
    features       real[] NOT NULL, -- and behind them its logits of both labels
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, collection_id, model, question, passage),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections ON DELETE CASCADE
);
CREATE INDEX preference_labels_version ON preference_labels (tenant_id, version_id);
SELECT sluice_protect('preference_labels');
GRANT SELECT, INSERT, UPDATE, DELETE ON preference_labels TO sluice_app;

CREATE TABLE preferences (
    tenant_id      uuid NOT NULL,
    collection_id  uuid NOT NULL,
    model          text NOT NULL,
    graph          text NOT NULL,
    weights        double precision[] NOT NULL,
    bias           double precision NOT NULL,
    questions      int NOT NULL,
    texts          int NOT NULL,
    preferred      int NOT NULL,
    differing      int NOT NULL,
    weight         double precision NOT NULL,
    held_out       int NOT NULL,
    area           double precision NOT NULL,
    own_area       double precision NOT NULL,
    learnt_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, collection_id, model, graph),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections ON DELETE CASCADE
);
SELECT sluice_protect('preferences');
GRANT SELECT, INSERT, UPDATE, DELETE ON preferences TO sluice_app;

-- +goose Down
DROP TABLE preferences, preference_labels, taught_questions;
