-- Which encoder a collection's vectors are of, and a generation's: the model servers' own; the second encoder's, whose
-- vectors are better and take longer; or, automatic, the first one's until the second has encoded the collection in the
-- background.

-- +goose Up
ALTER TABLE collections ADD encoder text NOT NULL DEFAULT 'auto' CHECK (encoder IN ('auto', 'first', 'second'));
ALTER TABLE generations ADD encoder text NOT NULL DEFAULT 'auto' CHECK (encoder IN ('auto', 'first', 'second'));
-- The version was written to a collection of the second encoder before it was encoded: it is found by its words.
ALTER TABLE versions ADD unencoded boolean NOT NULL DEFAULT false;

-- Collections are found that the second encoder has not come to, of all tenants.
GRANT SELECT (tenant_id, id, encoder, generation, deleted_at) ON collections TO sluice_system;
CREATE POLICY system ON collections FOR SELECT TO sluice_system USING (true);
GRANT SELECT (encoder) ON generations TO sluice_system;

-- +goose Down
REVOKE SELECT (encoder) ON generations FROM sluice_system;
DROP POLICY system ON collections;
REVOKE SELECT (tenant_id, id, encoder, generation, deleted_at) ON collections FROM sluice_system;
ALTER TABLE versions DROP unencoded;
ALTER TABLE generations DROP encoder;
ALTER TABLE collections DROP encoder;
