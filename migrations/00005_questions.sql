-- Questions, answers, citations and the ledger of language model calls.

-- +goose Up
CREATE TABLE questions (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    question       text NOT NULL,
    plan           text NOT NULL,
    filter         jsonb,
    k              int NOT NULL DEFAULT 0,
    -- The asker, with the groups it had when it asked.
    key_id         uuid NOT NULL,
    groups         text[] NOT NULL DEFAULT '{}',
    async          boolean NOT NULL,
    state          text NOT NULL CHECK (state IN ('queued', 'running', 'answered', 'failed', 'cancelled')),
    stage          text NOT NULL DEFAULT '',
    reason_code    text,
    reason         text,
    attempt        int NOT NULL DEFAULT 1,
    trace          text,
    created_at     timestamptz NOT NULL DEFAULT now(),
    queued_at      timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections,
    CHECK ((state = 'failed') = (reason_code IS NOT NULL))
);
CREATE INDEX questions_unfinished ON questions (queued_at) WHERE async AND state IN ('queued', 'running');
SELECT sluice_protect('questions');
GRANT SELECT, INSERT, UPDATE ON questions TO sluice_app;
GRANT SELECT, UPDATE ON questions TO sluice_system;
CREATE POLICY system ON questions TO sluice_system USING (true) WITH CHECK (true);

-- What retrieval found for a round, so that later steps carry no text.
CREATE TABLE retrievals (
    tenant_id    uuid NOT NULL,
    question_id  uuid NOT NULL,
    round        int NOT NULL,
    candidates   jsonb NOT NULL,
    trace        jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, question_id, round),
    FOREIGN KEY (tenant_id, question_id) REFERENCES questions ON DELETE CASCADE
);
SELECT sluice_protect('retrievals');
GRANT SELECT, INSERT, UPDATE, DELETE ON retrievals TO sluice_app;

CREATE TABLE answers (
    tenant_id    uuid NOT NULL,
    question_id  uuid NOT NULL,
    answer       text NOT NULL,
    supported    boolean NOT NULL,
    plan         text NOT NULL,
    trace        jsonb NOT NULL,
    usage        jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, question_id),
    FOREIGN KEY (tenant_id, question_id) REFERENCES questions ON DELETE CASCADE
);
SELECT sluice_protect('answers');
GRANT SELECT, INSERT, DELETE ON answers TO sluice_app;

CREATE TABLE citations (
    tenant_id    uuid NOT NULL,
    question_id  uuid NOT NULL,
    ordinal      int NOT NULL,
    document_id  uuid NOT NULL,
    external_id  text NOT NULL,
    title        text NOT NULL,
    location     text NOT NULL,
    version_id   uuid NOT NULL,
    section_id   uuid NOT NULL,
    start_byte   int NOT NULL,
    end_byte     int NOT NULL,
    quote        text NOT NULL,
    PRIMARY KEY (tenant_id, question_id, ordinal),
    FOREIGN KEY (tenant_id, question_id) REFERENCES answers ON DELETE CASCADE
);
CREATE INDEX citations_version ON citations (tenant_id, version_id);
SELECT sluice_protect('citations');
GRANT SELECT, INSERT, DELETE ON citations TO sluice_app;

CREATE TABLE llm_calls (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    question_id    uuid NOT NULL,
    round          int NOT NULL,
    step           text NOT NULL,
    item           int NOT NULL,
    task           text NOT NULL,
    provider       text NOT NULL,
    model          text NOT NULL,
    input_tokens   int NOT NULL,
    output_tokens  int NOT NULL,
    millis         double precision NOT NULL,
    request_hash   bytea NOT NULL,
    reply          jsonb NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, question_id, round, step, item)
);
SELECT sluice_protect('llm_calls');
GRANT SELECT, INSERT ON llm_calls TO sluice_app;
-- Purging a deleted version blanks what its text led to.
GRANT UPDATE (reply) ON llm_calls TO sluice_app;

-- +goose Down
DROP TABLE llm_calls, citations, answers, retrievals, questions;
