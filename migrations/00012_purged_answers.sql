-- An answer that purge removed is not supported by anything any more.

-- +goose Up
GRANT UPDATE (supported) ON answers TO sluice_app;

-- +goose Down
REVOKE UPDATE (supported) ON answers FROM sluice_app;
