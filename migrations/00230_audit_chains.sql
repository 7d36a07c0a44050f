-- The audit log of changes is a chain for each tenant: every entry has a number, and a hash over the one before and its own
-- content. An entry is chained when its transaction commits, so that no change waits for another one before that. What
-- retention removes is noted, and so is the hash after which the chain is kept.

-- +goose Up
CREATE TABLE audit_chains (
    tenant_id   uuid PRIMARY KEY REFERENCES tenants,
    number      bigint NOT NULL DEFAULT 0,    -- of the last entry
    hash        bytea NOT NULL DEFAULT '',
    kept_after  bigint NOT NULL DEFAULT 0,    -- the last entry before those that are kept
    kept_hash   bytea NOT NULL DEFAULT ''
);
SELECT sluice_protect('audit_chains');
GRANT SELECT ON audit_chains TO sluice_app;

CREATE TABLE audit_links (
    tenant_id   uuid NOT NULL,
    number      bigint NOT NULL,
    entry_id    uuid NOT NULL,
    hash        bytea NOT NULL,
    removed_at  timestamptz,                  -- when retention removed the entry
    PRIMARY KEY (tenant_id, number)
);
CREATE UNIQUE INDEX audit_links_entry ON audit_links (tenant_id, entry_id);
SELECT sluice_protect('audit_links');
GRANT SELECT ON audit_links TO sluice_app;

-- The functions below, and the next migration, run as the owner.
CREATE POLICY owner ON audit_chains TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY owner ON audit_links TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY owner ON audit FOR SELECT TO CURRENT_USER USING (true);

-- Nobody changes a chain but the triggers of the entries.
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_chains
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION sluice_append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON audit_chains FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_links
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION sluice_append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON audit_links FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();

-- The hash of an entry: SHA-256 over the hash before and each field, led by its length. internal/audit does the same.
-- +goose StatementBegin
CREATE FUNCTION sluice_audit_hash(previous bytea, VARIADIC fields text[]) RETURNS bytea LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(previous || string_agg(int4send(octet_length(f)) || convert_to(f, 'UTF8'), ''::bytea ORDER BY n))
    FROM unnest(fields) WITH ORDINALITY AS u (f, n)
$$;
-- +goose StatementEnd

-- Puts an entry at the end of its tenant's chain.
-- +goose StatementBegin
CREATE FUNCTION sluice_audit_chain(entry audit) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_number bigint;
    previous bytea;
    linked bytea;
BEGIN
    SELECT number + 1, hash INTO next_number, previous FROM public.audit_chains WHERE tenant_id = entry.tenant_id FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO public.audit_chains (tenant_id) VALUES (entry.tenant_id) ON CONFLICT DO NOTHING;
        SELECT number + 1, hash INTO next_number, previous FROM public.audit_chains WHERE tenant_id = entry.tenant_id FOR UPDATE;
    END IF;
    linked := public.sluice_audit_hash(previous, 'change', entry.tenant_id::text, next_number::text, entry.id::text,
        (extract(epoch FROM entry.at) * 1000000)::bigint::text, entry.actor, entry.action, entry.target, coalesce(entry.detail::text, ''));
    INSERT INTO public.audit_links (tenant_id, number, entry_id, hash) VALUES (entry.tenant_id, next_number, entry.id, linked);
    UPDATE public.audit_chains SET number = next_number, hash = linked WHERE tenant_id = entry.tenant_id;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_audit_chain(audit) FROM PUBLIC;

-- +goose StatementBegin
CREATE FUNCTION sluice_audit_linked() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM public.sluice_audit_chain(NEW);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_audit_linked() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER linked AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION sluice_audit_linked();

-- Notes which entries retention removed, and after which one the chain is kept.
-- +goose StatementBegin
CREATE FUNCTION sluice_audit_removed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tenant uuid;
    first bigint;
BEGIN
    FOR tenant IN SELECT DISTINCT tenant_id FROM gone ORDER BY tenant_id LOOP
        PERFORM FROM public.audit_chains WHERE tenant_id = tenant FOR UPDATE;
        UPDATE public.audit_links l SET removed_at = now() FROM gone g
            WHERE g.tenant_id = tenant AND l.tenant_id = tenant AND l.entry_id = g.id;
        SELECT min(number) INTO first FROM public.audit_links WHERE tenant_id = tenant AND removed_at IS NULL;
        UPDATE public.audit_chains c SET kept_after = l.number, kept_hash = l.hash FROM (
            SELECT number, hash FROM public.audit_links WHERE tenant_id = tenant AND (first IS NULL OR number < first)
            ORDER BY number DESC LIMIT 1) l WHERE c.tenant_id = tenant;
        DELETE FROM public.audit_links l USING public.audit_chains c
            WHERE c.tenant_id = tenant AND l.tenant_id = tenant AND l.number <= c.kept_after;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_audit_removed() FROM PUBLIC;
CREATE TRIGGER removed AFTER DELETE ON audit REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_audit_removed();

-- +goose Down
DROP TRIGGER removed ON audit;
DROP TRIGGER linked ON audit;
DROP FUNCTION sluice_audit_removed(), sluice_audit_linked(), sluice_audit_chain(audit), sluice_audit_hash(bytea, text[]);
DROP POLICY owner ON audit;
DROP TABLE audit_links, audit_chains;
