-- Who read what. Entries are a chain for each tenant, as those of changes are, written in batches by whoever holds the
-- row of the chain's end; the tenant ffffffff-ffff-ffff-ffff-ffffffffffff has requests with keys of nobody. A partition has
-- the entries that were written in one month, and goes as a whole.
--
-- breaks nothing: the function that drops a table drops months of this one alone.

-- +goose Up
CREATE TABLE audit_read_chains (
    tenant_id   uuid PRIMARY KEY,
    number      bigint NOT NULL DEFAULT 0,    -- of the last entry
    hash        bytea NOT NULL DEFAULT '',
    written     timestamptz NOT NULL DEFAULT '-infinity',
    kept_after  bigint NOT NULL DEFAULT 0,    -- the last entry before those that are kept
    kept_hash   bytea NOT NULL DEFAULT ''
);
SELECT sluice_protect('audit_read_chains');
GRANT SELECT, INSERT (tenant_id), UPDATE (number, hash, written) ON audit_read_chains TO sluice_app;

CREATE TABLE audit_reads (
    tenant_id   uuid NOT NULL,
    number      bigint NOT NULL,
    written     timestamptz NOT NULL,         -- grows with the number
    hash        bytea NOT NULL,
    id          uuid NOT NULL,
    at          timestamptz NOT NULL,         -- when the request came
    action      text NOT NULL,                -- the operation, as the API's document names it
    status      int NOT NULL,
    via         text NOT NULL DEFAULT '',     -- "mcp"; empty: the API
    key_id      uuid,
    key_name    text NOT NULL DEFAULT '',
    person      text NOT NULL DEFAULT '',
    address     text NOT NULL DEFAULT '',
    agent       text NOT NULL DEFAULT '',
    trace       text NOT NULL DEFAULT '',
    collection  text NOT NULL DEFAULT '',
    target      text NOT NULL DEFAULT '',     -- id of a document, a question, a key
    query       text NOT NULL DEFAULT '',
    documents   uuid[] NOT NULL DEFAULT '{}', -- that were shown
    PRIMARY KEY (tenant_id, number, written)
) PARTITION BY RANGE (written);
CREATE INDEX audit_reads_at ON audit_reads (tenant_id, at);
SELECT sluice_protect('audit_reads');
GRANT SELECT, INSERT ON audit_reads TO sluice_app;

-- The functions below run as the owner.
CREATE POLICY owner ON audit_read_chains TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY owner ON audit_reads FOR SELECT TO CURRENT_USER USING (true);

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_reads
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON audit_read_chains
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_append_only();

-- How far the chains were sent elsewhere. The system role sees where chains end, and sends nothing.
CREATE TABLE audit_sent (
    tenant_id   uuid NOT NULL,
    chain       text NOT NULL CHECK (chain IN ('changes', 'reads')),
    number      bigint NOT NULL,
    PRIMARY KEY (tenant_id, chain)
);
SELECT sluice_protect('audit_sent');
GRANT SELECT, INSERT, UPDATE (number) ON audit_sent TO sluice_app;
GRANT SELECT ON audit_sent TO sluice_system;
CREATE POLICY system ON audit_sent FOR SELECT TO sluice_system USING (true);
GRANT SELECT (tenant_id, number) ON audit_chains, audit_read_chains TO sluice_system;
CREATE POLICY system ON audit_chains FOR SELECT TO sluice_system USING (true);
CREATE POLICY system ON audit_read_chains FOR SELECT TO sluice_system USING (true);

-- Makes the partitions of this month and so many after it, as far as they are missing.
-- +goose StatementBegin
CREATE FUNCTION sluice_audit_months(ahead int) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
    month timestamptz := date_trunc('month', clock_timestamp());
    part text;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('sluice audit months', 0));
    FOR n IN 0..least(ahead, 12) LOOP
        part := 'audit_reads_' || to_char(month, 'YYYYMM');
        IF to_regclass('public.' || part) IS NULL THEN
            EXECUTE format('CREATE TABLE public.%I (LIKE public.audit_reads INCLUDING DEFAULTS INCLUDING STORAGE)', part);
            EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
            EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON public.%I '
                'FOR EACH STATEMENT EXECUTE FUNCTION public.sluice_append_only()', part);
            EXECUTE format('ALTER TABLE public.audit_reads ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                part, month, month + interval '1 month');
            made := made + 1;
        END IF;
        month := month + interval '1 month';
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_audit_months(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sluice_audit_months(int) TO sluice_system;
SELECT sluice_audit_months(2);

-- Drops the oldest month that ended more than so many days ago, at least 30, and names it; null when there is none. Each
-- tenant's chain is kept after its last entry of that month. As the parent's lock keeps writers waiting, it is waited for
-- shortly: who doesn't get it comes again.
-- +goose StatementBegin
CREATE FUNCTION sluice_drop_audit_month(days int) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '100ms' AS $$
DECLARE
    part text;
    until timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('sluice audit months', 0));
    SELECT c.relname, to_date(right(c.relname, 6), 'YYYYMM')::timestamptz + interval '1 month' INTO part, until
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'public.audit_reads'::regclass ORDER BY c.relname LIMIT 1;
    IF part IS NULL OR until > now() - make_interval(days => greatest(days, 30)) THEN
        RETURN NULL;
    END IF;
    UPDATE public.audit_read_chains c SET kept_after = l.number, kept_hash = l.hash FROM (
        SELECT DISTINCT ON (tenant_id) tenant_id, number, hash FROM public.audit_reads WHERE written < until
        ORDER BY tenant_id, number DESC) l WHERE c.tenant_id = l.tenant_id;
    EXECUTE format('DROP TABLE public.%I', part);
    RETURN part;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sluice_drop_audit_month(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sluice_drop_audit_month(int) TO sluice_system;

-- +goose Down
DROP FUNCTION sluice_drop_audit_month(int), sluice_audit_months(int);
DROP POLICY system ON audit_chains;
REVOKE ALL (tenant_id, number) ON audit_chains FROM sluice_system;
DROP TABLE audit_sent, audit_reads, audit_read_chains;
