-- What moving versions needs beside the tables: the reconciler queues as
-- sluice_system, and the relay takes each subject's oldest rows.

-- +goose Up
GRANT INSERT ON outbox TO sluice_system;
CREATE INDEX outbox_subject ON outbox (subject, id);

-- +goose Down
DROP INDEX outbox_subject;
REVOKE INSERT ON outbox FROM sluice_system;
