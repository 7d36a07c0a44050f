-- Old entries of the audit log go. The log stays append-only: nothing is changed, and only the system role
-- removes entries, and nobody those that are younger than 30 days. The system sees which entries are old, nothing of what they say.
--
-- breaks nothing: programs neither change nor remove entries, and triggers go on stopping both.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION sluice_audit_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at > now() - interval '30 days' THEN
        RAISE EXCEPTION 'an entry of the audit log is kept for 30 days at least' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN OLD;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER kept BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION sluice_audit_kept();
DROP TRIGGER append_only ON audit;
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();
CREATE TRIGGER append_only_delete BEFORE DELETE ON audit
    FOR EACH STATEMENT WHEN (current_user <> 'sluice_system') EXECUTE FUNCTION sluice_append_only();
GRANT SELECT (tenant_id, id, at), DELETE ON audit TO sluice_system;
CREATE POLICY system ON audit TO sluice_system USING (at <= now() - interval '30 days') WITH CHECK (false);

-- +goose Down
DROP POLICY system ON audit;
REVOKE ALL (tenant_id, id, at) ON audit FROM sluice_system;
REVOKE DELETE ON audit FROM sluice_system;
DROP TRIGGER append_only_delete ON audit;
DROP TRIGGER append_only ON audit;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();
DROP TRIGGER kept ON audit;
DROP FUNCTION sluice_audit_kept();
