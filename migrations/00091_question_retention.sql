-- Old questions go, with what was answered, and what was found for them goes before.
-- The system sees which rows are old and who needs them, nothing of what they say.

-- +goose Up
ALTER TABLE retrievals ADD emptied_at timestamptz; -- since then it says of which versions it was, no more

-- What is emptied names no versions, and those that it had stay.
DROP TRIGGER note_versions ON retrievals;
CREATE TRIGGER note_versions AFTER INSERT OR UPDATE OF candidates ON retrievals
    FOR EACH ROW WHEN (NEW.candidates <> '[]') EXECUTE FUNCTION sluice_note_retrieval();

GRANT DELETE ON questions TO sluice_system;
GRANT SELECT (tenant_id, question_id, round, created_at, emptied_at), UPDATE (candidates, trace, pool, emptied_at) ON retrievals TO sluice_system;
CREATE POLICY system ON retrievals TO sluice_system USING (true) WITH CHECK (true);
GRANT SELECT (tenant_id, question_id) ON ratings TO sluice_system;
CREATE POLICY system ON ratings FOR SELECT TO sluice_system USING (true);
GRANT SELECT (subject_id) ON webhook_deliveries TO sluice_system;
-- Replies that are cached for tenants who ask nothing any more.
GRANT SELECT (tenant_id, key, created_at), DELETE ON llm_cache TO sluice_system;
CREATE POLICY system ON llm_cache TO sluice_system USING (true);

-- +goose Down
DROP POLICY system ON llm_cache;
REVOKE ALL (tenant_id, key, created_at) ON llm_cache FROM sluice_system;
REVOKE DELETE ON llm_cache FROM sluice_system;
REVOKE SELECT (subject_id) ON webhook_deliveries FROM sluice_system;
DROP POLICY system ON ratings;
REVOKE ALL (tenant_id, question_id) ON ratings FROM sluice_system;
DROP POLICY system ON retrievals;
REVOKE ALL (tenant_id, question_id, round, created_at, emptied_at, candidates, trace, pool) ON retrievals FROM sluice_system;
REVOKE DELETE ON questions FROM sluice_system;
DROP TRIGGER note_versions ON retrievals;
CREATE TRIGGER note_versions AFTER INSERT OR UPDATE OF candidates ON retrievals
    FOR EACH ROW EXECUTE FUNCTION sluice_note_retrieval();
ALTER TABLE retrievals DROP emptied_at;
