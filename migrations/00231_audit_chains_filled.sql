-- Entries from before the chains are put at their ends. Changes of a tenant wait with their commit until this one commits.

-- +goose Up
ALTER TABLE audit_chains DISABLE TRIGGER append_only;
ALTER TABLE audit_links DISABLE TRIGGER append_only;

-- +goose StatementBegin
DO $$
DECLARE
    entry audit;
BEGIN
    FOR entry IN SELECT * FROM audit a WHERE NOT EXISTS (SELECT FROM audit_links l WHERE l.tenant_id = a.tenant_id AND l.entry_id = a.id)
        ORDER BY a.tenant_id, a.id
    LOOP
        PERFORM sluice_audit_chain(entry);
    END LOOP;
END
$$;
-- +goose StatementEnd

ALTER TABLE audit_chains ENABLE TRIGGER append_only;
ALTER TABLE audit_links ENABLE TRIGGER append_only;

-- +goose Down
SELECT 1;
