-- Webhooks, and what is on its way to them. A delivery has no text: what is sent
-- is read when it is sent, so that nothing of what is purged meanwhile is left.

-- +goose Up
CREATE TABLE webhooks (
    tenant_id    uuid NOT NULL REFERENCES tenants,
    id           uuid NOT NULL,
    url          text NOT NULL,
    description  text NOT NULL DEFAULT '',
    kinds        text[] NOT NULL CHECK (cardinality(kinds) > 0),
    include      text[] NOT NULL DEFAULT '{}',
    secret       bytea NOT NULL,                 -- as it is: it signs
    old_secret   bytea,                          -- signs, too, until then
    old_until    timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
SELECT sluice_protect('webhooks');
GRANT SELECT, INSERT, DELETE, UPDATE (secret, old_secret, old_until) ON webhooks TO sluice_app;
GRANT SELECT (tenant_id, id, kinds) ON webhooks TO sluice_system;
CREATE POLICY system ON webhooks FOR SELECT TO sluice_system USING (true);

-- Without a reference to its webhook: an event must not fail because its webhook
-- goes at the same time. The id is the event's, the same for all webhooks.
CREATE TABLE webhook_deliveries (
    tenant_id      uuid NOT NULL REFERENCES tenants,
    webhook_id     uuid NOT NULL,
    id             uuid NOT NULL,
    kind           text NOT NULL,
    subject_id     uuid NOT NULL,
    state          text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
    attempts       int NOT NULL DEFAULT 0,       -- the one in hand included
    since          timestamptz NOT NULL DEFAULT now(), -- it is tried
    next_at        timestamptz NOT NULL DEFAULT now(),
    claimed_until  timestamptz,
    status         int,
    problem        text,
    created_at     timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,
    PRIMARY KEY (tenant_id, webhook_id, id)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant_id, next_at) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_over ON webhook_deliveries (finished_at) WHERE state <> 'waiting';
SELECT sluice_protect('webhook_deliveries');
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_deliveries TO sluice_app;
GRANT SELECT (tenant_id, webhook_id, id, state, attempts, since, next_at, claimed_until, finished_at),
      INSERT (tenant_id, webhook_id, id, kind, subject_id),
      UPDATE (attempts, next_at, claimed_until),
      DELETE ON webhook_deliveries TO sluice_system;
CREATE POLICY system ON webhook_deliveries TO sluice_system USING (true) WITH CHECK (true);

-- +goose Down
DROP TABLE webhook_deliveries, webhooks;
