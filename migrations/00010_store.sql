-- What the store's own operations need beside the tables: reading the schema's
-- version, locks on rows that are otherwise immutable, and what purge needs to
-- find everything that was built on a version.

-- +goose Up
GRANT SELECT ON goose_db_version TO sluice_app, sluice_system;

-- The name of the uploaded file: a hint for the parser. The title as uploaded:
-- title itself becomes the parser's when none was given, and the fingerprint is
-- of what was given.
ALTER TABLE versions ADD COLUMN file_name text NOT NULL DEFAULT '', ADD COLUMN given_title text NOT NULL DEFAULT '';

-- When a version was superseded or cancelled, whoever did it.
ALTER TABLE versions ADD COLUMN retired_at timestamptz;
-- +goose StatementBegin
CREATE FUNCTION sluice_retire() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.retired_at := now();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER retire BEFORE UPDATE OF state ON versions FOR EACH ROW
    WHEN (NEW.state IN ('superseded', 'cancelled') AND OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION sluice_retire();
DROP INDEX versions_purge;
CREATE INDEX versions_purge ON versions (retired_at) WHERE state IN ('superseded', 'cancelled') AND purged_at IS NULL;
CREATE INDEX versions_purge_failed ON versions (finished_at) WHERE state = 'failed' AND purged_at IS NULL;

-- An upload that finds its bytes stored already locks them against purge.
GRANT UPDATE (created_at) ON blobs TO sluice_app;

-- Which versions a retrieval's text came from.
CREATE TABLE retrieval_versions (
    tenant_id    uuid NOT NULL,
    question_id  uuid NOT NULL,
    round        int NOT NULL,
    version_id   uuid NOT NULL,
    PRIMARY KEY (tenant_id, version_id, question_id, round),
    FOREIGN KEY (tenant_id, question_id, round) REFERENCES retrievals ON DELETE CASCADE
);
CREATE INDEX retrieval_versions_retrieval ON retrieval_versions (tenant_id, question_id, round);
SELECT sluice_protect('retrieval_versions');
GRANT SELECT, INSERT, DELETE ON retrieval_versions TO sluice_app;
-- +goose StatementBegin
CREATE FUNCTION sluice_note_retrieval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO retrieval_versions (tenant_id, question_id, round, version_id)
    SELECT DISTINCT NEW.tenant_id, NEW.question_id, NEW.round, (v #>> '{}')::uuid
    FROM jsonb_path_query(NEW.candidates, 'strict $.**.version ? (@.type() == "string")', '{}', true) AS v
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER note_versions AFTER INSERT OR UPDATE OF candidates ON retrievals
    FOR EACH ROW EXECUTE FUNCTION sluice_note_retrieval();

-- Purge empties an answer that was built on purged text, and says so.
ALTER TABLE answers ADD COLUMN purged_at timestamptz;
GRANT UPDATE (answer, trace, purged_at) ON answers TO sluice_app;
CREATE INDEX idempotency_age ON idempotency (created_at);

-- +goose Down
DROP INDEX idempotency_age;
ALTER TABLE answers DROP COLUMN purged_at;
DROP TRIGGER note_versions ON retrievals;
DROP TABLE retrieval_versions;
DROP FUNCTION sluice_note_retrieval();
DROP INDEX versions_purge_failed, versions_purge;
CREATE INDEX versions_purge ON versions (finished_at) WHERE state IN ('superseded', 'cancelled') AND purged_at IS NULL;
DROP TRIGGER retire ON versions;
DROP FUNCTION sluice_retire();
ALTER TABLE versions DROP COLUMN retired_at, DROP COLUMN file_name, DROP COLUMN given_title;
