-- The outbox wakes its relays over NATS, after the commit: NOTIFY takes a lock of
-- the whole server until the commit is over, so that all writers of messages
-- waited for one another. A relay claims subjects for a short time, and publishes
-- without a transaction.

-- +goose Up
DROP TRIGGER wake ON outbox;
DROP FUNCTION sluice_outbox_wake();

-- Who publishes the messages of a subject, and until when at most. A server that
-- crashed has none: relays may publish what was published, under the same ids.
CREATE UNLOGGED TABLE outbox_claims (
    subject  text NOT NULL PRIMARY KEY,
    holder   text NOT NULL,
    until    timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE (holder, until), DELETE ON outbox_claims TO sluice_system;

-- Which process runs a loop that one process runs at a time, and until when
-- unless it says so again.
CREATE TABLE loops (
    name    text NOT NULL PRIMARY KEY,
    holder  text NOT NULL,
    until   timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE (holder, until), DELETE ON loops TO sluice_system;

-- +goose Down
DROP TABLE loops, outbox_claims;
-- +goose StatementBegin
CREATE FUNCTION sluice_outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY sluice_outbox;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER wake AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION sluice_outbox_wake();
