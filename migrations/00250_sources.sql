-- Sources: places that collections are kept in step with. What a synchronisation needs to go on, in whichever worker, is
-- here. Secrets are sealed before they come.

-- +goose Up
CREATE TABLE sources (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    id             uuid NOT NULL,
    collection_id  uuid NOT NULL,
    name           text NOT NULL,
    driver         text NOT NULL,
    settings       jsonb NOT NULL DEFAULT '{}',    -- of the driver, but for secrets
    secrets        bytea,                          -- sealed
    secret_fields  text[] NOT NULL DEFAULT '{}',   -- the names of those
    include        text[] NOT NULL DEFAULT '{}',
    exclude        text[] NOT NULL DEFAULT '{}',
    labels         text[] NOT NULL DEFAULT '{}',   -- that its documents get
    max_bytes      bigint NOT NULL DEFAULT 0,      -- of an item; 0: what the worker allows
    max_items      bigint NOT NULL DEFAULT 0,      -- 0: any number
    max_shorter    int NOT NULL DEFAULT 20 CHECK (max_shorter BETWEEN 1 AND 100), -- per cent by which a listing that counts is shorter
    every          int NOT NULL DEFAULT 0,         -- minutes between two runs; 0: when somebody asks
    state          text NOT NULL DEFAULT 'waiting' CHECK (state IN
                       ('waiting', 'running', 'retrying', 'limited', 'paused', 'asking', 'refused', 'invalid', 'removing')),
    keep_documents boolean NOT NULL DEFAULT false, -- when it is removed
    problem        text NOT NULL DEFAULT '',
    problem_at     timestamptz,                    -- since when
    tries          int NOT NULL DEFAULT 0,         -- that failed one after the other
    due_at         timestamptz,                    -- when a worker is to see to it; NULL: when somebody has said what to do
    run_id         uuid,                           -- that has not ended
    attempt        int NOT NULL DEFAULT 0,         -- of whoever works on it
    changes        text NOT NULL DEFAULT '',       -- cursor of a listing of what changed; empty: everything is listed
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name),
    FOREIGN KEY (tenant_id, collection_id) REFERENCES collections (tenant_id, id)
);
CREATE INDEX sources_due ON sources (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sources_of_collection ON sources (tenant_id, collection_id);
SELECT sluice_protect('sources');
GRANT SELECT, INSERT, UPDATE, DELETE ON sources TO sluice_app;
GRANT SELECT (tenant_id, id, due_at) ON sources TO sluice_system;
CREATE POLICY system ON sources FOR SELECT TO sluice_system USING (true);

CREATE TABLE source_runs (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    source_id    uuid NOT NULL,
    state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'cancelled', 'refused', 'invalid')),
    phase        text NOT NULL DEFAULT 'list' CHECK (phase IN ('list', 'fetch', 'delete')),
    whole        boolean NOT NULL,               -- everything is listed, not what changed
    cursor       text NOT NULL DEFAULT '',       -- of the next page
    changes      text NOT NULL DEFAULT '',       -- where a listing of what changes after this run begins
    before       bigint NOT NULL DEFAULT 0,      -- items that were there
    seen         bigint NOT NULL DEFAULT 0,
    added        bigint NOT NULL DEFAULT 0,
    changed      bigint NOT NULL DEFAULT 0,
    unchanged    bigint NOT NULL DEFAULT 0,
    moved        bigint NOT NULL DEFAULT 0,
    deleted      bigint NOT NULL DEFAULT 0,
    skipped      bigint NOT NULL DEFAULT 0,
    fetched      bigint NOT NULL DEFAULT 0,
    bytes        bigint NOT NULL DEFAULT 0,      -- that were fetched
    problem      text NOT NULL DEFAULT '',
    started_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, source_id) REFERENCES sources (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX source_runs_of_source ON source_runs (tenant_id, source_id, id);
SELECT sluice_protect('source_runs');
GRANT SELECT, INSERT, UPDATE, DELETE ON source_runs TO sluice_app;

CREATE TABLE source_items (
    tenant_id    uuid NOT NULL,
    source_id    uuid NOT NULL,
    item         text NOT NULL,                  -- its id in the place
    path         text NOT NULL,
    url          text NOT NULL DEFAULT '',
    size         bigint NOT NULL DEFAULT -1,
    modified_at  timestamptz,
    version      text NOT NULL DEFAULT '',       -- of what was fetched
    listed       text NOT NULL DEFAULT '',       -- the version that the listing showed
    sha256       bytea,
    document_id  uuid,
    run_id       uuid NOT NULL,                  -- that saw it last
    pending      text NOT NULL DEFAULT '' CHECK (pending IN ('', 'fetch', 'describe', 'delete')),
    moved        boolean NOT NULL DEFAULT false, -- and its document doesn't say so yet
    tries        int NOT NULL DEFAULT 0,
    reason       text NOT NULL DEFAULT '',       -- why it is skipped
    PRIMARY KEY (tenant_id, source_id, item),
    FOREIGN KEY (tenant_id, source_id) REFERENCES sources (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX source_items_pending ON source_items (tenant_id, source_id, tries, item) WHERE pending <> '';
SELECT sluice_protect('source_items');
GRANT SELECT, INSERT, UPDATE, DELETE ON source_items TO sluice_app;

CREATE TABLE source_skipped (
    tenant_id    uuid NOT NULL,
    source_id    uuid NOT NULL,
    run_id       uuid NOT NULL,
    number       bigint NOT NULL,
    path         text NOT NULL,
    reason       text NOT NULL,
    PRIMARY KEY (tenant_id, source_id, run_id, number),
    FOREIGN KEY (tenant_id, source_id) REFERENCES sources (tenant_id, id) ON DELETE CASCADE
);
SELECT sluice_protect('source_skipped');
GRANT SELECT, INSERT, UPDATE, DELETE ON source_skipped TO sluice_app;

-- What the workers that run can follow. It is nobody's data.
CREATE TABLE source_drivers (
    name     text NOT NULL PRIMARY KEY,
    summary  text NOT NULL,
    fields   jsonb NOT NULL,
    seen_at  timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE (summary, fields, seen_at) ON source_drivers TO sluice_system;

-- +goose Down
DROP TABLE source_drivers, source_skipped, source_items, source_runs, sources;
