-- A person who signs in may have scopes of single collections, too (00242).
--
-- Programs of before, which would take one without scopes of the tenant for somebody who may read, do not know their sessions:
-- these have a byte more after their hash. At a sign-in they know nothing of collections, which the person had by other rules,
-- and these go; programs that know them give the person's row another hash, too.

-- +goose Up
-- Sessions are few. A secret is of one session, with or without that byte.
CREATE UNIQUE INDEX sessions_secret ON sessions (substr(hash, 1, 32));

-- +goose StatementBegin
CREATE FUNCTION sluice_forget_collections() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.collections := '[]';
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER forget_collections BEFORE UPDATE OF scopes ON api_keys FOR EACH ROW
    WHEN (OLD.subject IS NOT NULL AND NEW.hash = OLD.hash) EXECUTE FUNCTION sluice_forget_collections();

-- +goose Down
-- Who had no scopes of the tenant has no session, and gets scopes at the next sign-in.
ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys NO FORCE ROW LEVEL SECURITY;
DELETE FROM sessions WHERE length(hash) > 32;
UPDATE api_keys SET scopes = '{query}' WHERE subject IS NOT NULL AND cardinality(scopes) = 0;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
DROP TRIGGER forget_collections ON api_keys;
DROP FUNCTION sluice_forget_collections;
DROP INDEX sessions_secret;
