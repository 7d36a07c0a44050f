-- Choices of plans: what is asked for, the questions that plans are measured on, and
-- what each gave under each plan. A worker that goes on with a choice finds here all
-- that it needs.

-- +goose Up
CREATE TABLE plan_choices (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    key_id         uuid NOT NULL,                 -- that asked for it
    groups         text[] NOT NULL DEFAULT '{}',  -- of that key: what its questions are made of, and found in
    state          text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    stage          text NOT NULL DEFAULT '',
    plans          jsonb NOT NULL,                -- name, and text of those that are the tenant's own
    current_plan   text NOT NULL DEFAULT '',      -- the collection's, when it was asked for
    question_limit int NOT NULL,
    seconds        int NOT NULL DEFAULT 0,
    labelled       jsonb NOT NULL DEFAULT '[]',   -- questions that came with it, until they are among its questions
    sources        jsonb NOT NULL DEFAULT '[]',
    questions      int NOT NULL DEFAULT 0,
    asked          int NOT NULL DEFAULT 0,        -- the number of the last question that was
    dropped        text[] NOT NULL DEFAULT '{}',
    left_out       jsonb NOT NULL DEFAULT '[]',
    notes          text[] NOT NULL DEFAULT '{}',
    reason         text NOT NULL DEFAULT '',
    result         jsonb,
    applied        text NOT NULL DEFAULT '',
    every          int NOT NULL DEFAULT 0,        -- days after which it is repeated; 0: never
    recheck        int NOT NULL DEFAULT 0,        -- how often it was repeated before, this time included
    alpha          double precision NOT NULL,     -- chance of error of its result
    created_at     timestamptz NOT NULL DEFAULT now(),
    measuring_at   timestamptz,                   -- since when
    finished_at    timestamptz,
    recheck_at     timestamptz,                   -- when it is repeated; of the last of a collection alone
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections (tenant_id, id)
);
CREATE UNIQUE INDEX plan_choices_unfinished ON plan_choices (tenant_id, collection_id) WHERE state IN ('queued', 'running');
CREATE INDEX plan_choices_of_collection ON plan_choices (tenant_id, collection_id, id);
CREATE INDEX plan_choices_due ON plan_choices (created_at) WHERE state IN ('queued', 'running');
CREATE INDEX plan_choices_recheck ON plan_choices (recheck_at) WHERE recheck_at IS NOT NULL;
SELECT sluice_protect('plan_choices');
GRANT SELECT, INSERT, UPDATE, DELETE ON plan_choices TO sluice_app;
GRANT SELECT (tenant_id, id, state, created_at, recheck_at) ON plan_choices TO sluice_system;
CREATE POLICY system ON plan_choices FOR SELECT TO sluice_system USING (true);

CREATE TABLE plan_choice_questions (
    tenant_id     uuid NOT NULL,
    choice_id     uuid NOT NULL,
    number        int NOT NULL CHECK (number > 0),
    source        text NOT NULL CHECK (source IN ('labelled', 'rated', 'written', 'made')),
    question      text NOT NULL,
    documents     text[] NOT NULL DEFAULT '{}',   -- external ids
    document_ids  uuid[] NOT NULL DEFAULT '{}',   -- of these: the question goes with any of them
    answers       text[] NOT NULL DEFAULT '{}',
    contains      text[] NOT NULL DEFAULT '{}',
    evidence      text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, choice_id, number),
    FOREIGN KEY (tenant_id, choice_id) REFERENCES plan_choices (tenant_id, id) ON DELETE CASCADE
);
SELECT sluice_protect('plan_choice_questions');
GRANT SELECT, INSERT, DELETE ON plan_choice_questions TO sluice_app;

CREATE TABLE plan_choice_figures (
    tenant_id  uuid NOT NULL,
    choice_id  uuid NOT NULL,
    number     int NOT NULL,
    plan       text COLLATE "C" NOT NULL,
    quality    double precision NOT NULL CHECK (quality BETWEEN 0 AND 1),
    ndcg       double precision,                  -- null: no document is known to be right
    tokens     double precision NOT NULL,
    millis     double precision NOT NULL,
    dollars    double precision,
    PRIMARY KEY (tenant_id, choice_id, number, plan),
    FOREIGN KEY (tenant_id, choice_id) REFERENCES plan_choices (tenant_id, id) ON DELETE CASCADE
);
SELECT sluice_protect('plan_choice_figures');
GRANT SELECT, INSERT, DELETE ON plan_choice_figures TO sluice_app;

-- +goose Down
DROP TABLE plan_choice_figures, plan_choice_questions, plan_choices;
