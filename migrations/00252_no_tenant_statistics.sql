-- Statistics of tenants and collections make plans for those that they do not have. If they list all tenants that ANALYZE
-- saw, the planner assumes one row of any other. Then all of a new tenant's rows seem as cheap to read as one row by its
-- key, and are read for each row of a join. Without statistics it assumes a two-hundredth of the table.
--
-- ANALYZE leaves what it knows about a column without statistics. Only a superuser can delete that. In a database of
-- another owner that has been analysed, the columns keep one common value instead.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
    super boolean := (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
    c record;
BEGIN
    FOR c IN
        SELECT t.oid, t.oid::regclass AS name, a.attname, a.attnum, t.reltuples > 0 AS analyzed
        FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
        WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND a.attname IN ('tenant_id', 'collection_id') AND NOT a.attisdropped
          AND t.relname !~ '^vectors_\d+_[0-9a-f]{32}$' -- of one collection each
        ORDER BY t.relname, a.attname
    LOOP
        EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STATISTICS %s', c.name, c.attname, CASE WHEN c.analyzed AND NOT super THEN 1 ELSE 0 END);
        IF super THEN
            DELETE FROM pg_statistic WHERE starelid = c.oid AND staattnum = c.attnum;
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT t.oid::regclass AS name, a.attname
        FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
        WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND a.attname IN ('tenant_id', 'collection_id') AND NOT a.attisdropped
    LOOP
        EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STATISTICS -1', c.name, c.attname);
    END LOOP;
END
$$;
-- +goose StatementEnd
