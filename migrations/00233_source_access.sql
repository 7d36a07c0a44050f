-- Who may see what in sources whose permissions are followed: their users and groups, the access of folders and items, and
-- which people of the identity provider they are. A document has one label that names the access list it comes under; who may
-- see which lists is worked out when somebody asks. Lists name principals and not people, so that a membership or a mapping
-- that changes changes no document.
--
-- Sources have a higher number than this, so that there is no foreign key to them: their rows go with a statement of their own.

-- +goose Up
-- A source whose permissions are followed.
CREATE TABLE source_access (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    source_id      uuid NOT NULL,
    principals_at  timestamptz,                    -- when users and groups were listed
    listed_run     uuid,                           -- the run that did
    pushed         bigint NOT NULL DEFAULT 0,      -- changes that were pushed: what was listed before one is old
    PRIMARY KEY (tenant_id, source_id)
);
SELECT sluice_protect('source_access');
GRANT SELECT, INSERT, UPDATE, DELETE ON source_access TO sluice_app;

-- Raised by whatever may change what somebody sees, so that programs know when what they remember is old.
CREATE TABLE access_revisions (
    tenant_id      uuid PRIMARY KEY REFERENCES tenants,
    revision       bigint NOT NULL DEFAULT 1
);
SELECT sluice_protect('access_revisions');
GRANT SELECT, INSERT, UPDATE ON access_revisions TO sluice_app;

CREATE TABLE access_principals (
    tenant_id      uuid NOT NULL,
    source_id      uuid NOT NULL,
    principal      text NOT NULL,                  -- its id in the place
    is_group       boolean NOT NULL,
    name           text NOT NULL DEFAULT '',       -- shown; nothing is decided by it, nor by the next
    email          text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, source_id, principal),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source_access ON DELETE CASCADE
);
SELECT sluice_protect('access_principals');
GRANT SELECT, INSERT, UPDATE, DELETE ON access_principals TO sluice_app;

CREATE TABLE access_members (
    tenant_id      uuid NOT NULL,
    source_id      uuid NOT NULL,
    in_group       text NOT NULL,
    member         text NOT NULL,
    PRIMARY KEY (tenant_id, source_id, in_group, member),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source_access ON DELETE CASCADE
);
CREATE INDEX access_members_of ON access_members (tenant_id, source_id, member);
SELECT sluice_protect('access_members');
GRANT SELECT, INSERT, DELETE ON access_members TO sluice_app;

-- Who a principal is here, as an admin said.
CREATE TABLE access_mappings (
    tenant_id      uuid NOT NULL,
    source_id      uuid NOT NULL,
    principal      text NOT NULL,
    kind           text NOT NULL CHECK (kind IN ('person', 'key', 'group', 'asker')),
    value          text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source_id, principal, kind, value),
    FOREIGN KEY (tenant_id, source_id, principal) REFERENCES access_principals ON DELETE CASCADE
);
CREATE INDEX access_mappings_of ON access_mappings (tenant_id, kind, value);
SELECT sluice_protect('access_mappings');
GRANT SELECT, INSERT, UPDATE (value), DELETE ON access_mappings TO sluice_app;

CREATE TABLE access_lists (
    tenant_id      uuid NOT NULL,
    source_id      uuid NOT NULL,
    label          text NOT NULL,
    content        jsonb NOT NULL,
    principals     text[] NOT NULL DEFAULT '{}',   -- that it names
    PRIMARY KEY (tenant_id, source_id, label),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source_access ON DELETE CASCADE
);
SELECT sluice_protect('access_lists');
GRANT SELECT, INSERT, DELETE ON access_lists TO sluice_app;

-- Folders and items. A document may have another label than it should for a moment: its list counts for nobody until it has.
CREATE TABLE access_nodes (
    tenant_id      uuid NOT NULL,
    source_id      uuid NOT NULL,
    is_folder      boolean NOT NULL,
    node           text NOT NULL,                  -- its id in the place
    folder         text NOT NULL DEFAULT '',       -- that it is in
    access         jsonb,                          -- its own; NULL: not known
    run_id         uuid NOT NULL,                  -- that listed it last
    label          text NOT NULL DEFAULT '',       -- that the item's document should have
    given          text NOT NULL DEFAULT '',       -- that it has, or may get; empty: there is none yet
    PRIMARY KEY (tenant_id, source_id, is_folder, node),
    FOREIGN KEY (tenant_id, source_id) REFERENCES source_access ON DELETE CASCADE
);
CREATE INDEX access_nodes_in ON access_nodes (tenant_id, source_id, folder);
CREATE INDEX access_nodes_due ON access_nodes (tenant_id, source_id, given) WHERE given <> '' AND given <> label;
SELECT sluice_protect('access_nodes');
GRANT SELECT, INSERT, UPDATE, DELETE ON access_nodes TO sluice_app;

-- +goose Down
DROP TABLE access_nodes, access_lists, access_mappings, access_members, access_principals, access_revisions, source_access;
