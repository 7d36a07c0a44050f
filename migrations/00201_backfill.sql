-- Fills a large table while programs work with it: in chunks of its pages, each a transaction of its own, which wait for
-- nobody's row. For migrations outside of a transaction:
--
--     CALL sluice_backfill('versions', 'newest = false', 'newest AND retired_at IS NOT NULL');
--
-- It repeats itself until no row meets the condition, so rows must stop to meet it by the assignments, and programs must
-- write none that do. After an interruption it is called again, and goes on with the rows that are left.
--
-- breaks nothing: the policy that the procedure drops is its own.

-- +goose Up
-- +goose StatementBegin
CREATE PROCEDURE sluice_backfill(target regclass, assignments text, condition text, pages int DEFAULT 256) LANGUAGE plpgsql AS $$
DECLARE
    page bigint;
    size bigint;
    changed bigint;
    updated bigint;
    remain boolean;
BEGIN
    IF (SELECT relkind <> 'r' FROM pg_class WHERE oid = target) THEN
        RAISE EXCEPTION '% has no rows of its own: name each of its partitions', target USING ERRCODE = 'wrong_object_type';
    END IF;
    -- Policies hold for the owner, too. This one is the owner's alone.
    SET LOCAL lock_timeout = '3s';
    IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = target AND polname = 'backfill') THEN
        EXECUTE format('CREATE POLICY backfill ON %s TO CURRENT_USER USING (true)', target);
    END IF;
    COMMIT;
    LOOP
        changed := 0;
        page := 0;
        size := pg_relation_size(target) / current_setting('block_size')::bigint;
        WHILE page < size LOOP
            EXECUTE format('UPDATE %1$s SET %2$s WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM %1$s WHERE ctid >= %3$L::tid AND ctid < %4$L::tid AND (%5$s) FOR UPDATE SKIP LOCKED))',
                target, assignments, format('(%s,0)', page), format('(%s,0)', page + pages), condition);
            GET DIAGNOSTICS updated = ROW_COUNT;
            COMMIT;
            changed := changed + updated;
            page := page + pages;
        END LOOP;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', target, condition) INTO remain;
        COMMIT;
        EXIT WHEN NOT remain;
        IF changed = 0 THEN
            PERFORM pg_sleep(0.1); -- somebody has locked what is left
        END IF;
    END LOOP;
    SET LOCAL lock_timeout = '3s';
    EXECUTE format('DROP POLICY backfill ON %s', target);
END
$$;
-- +goose StatementEnd
REVOKE ALL ON PROCEDURE sluice_backfill(regclass, text, text, int) FROM PUBLIC;

-- +goose Down
DROP PROCEDURE sluice_backfill(regclass, text, text, int);
