package store_test

// This file proves that tenants are apart. It finds the tables by itself: a new
// one is walked too, and fails until the row maker knows how to fill it.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// notTenants are the tables without a tenant: the same for all, and nobody's
// data.
var notTenants = []string{"erasures", "goose_db_version", "loops", "outbox_claims", "schema_compatibility", "source_drivers", "spaces"}

// madeByTriggers are the tables whose rows only the database itself makes, with those of
// another table: here the audit log's.
var madeByTriggers = []string{"audit_chains", "audit_links"}

// systemColumns are what sluice_system may read of all tenants: no text, titles
// or metadata, no questions, no replies.
var systemColumns = map[string]string{
	"collection_changes": "", // triggers of what it changes write there
	"artifacts":          "attempt created_at stage tenant_id version_id",
	"audit":              "at id tenant_id",
	"audit_chains":       "number tenant_id",
	"audit_read_chains":  "number tenant_id",
	"audit_sent":         "chain number tenant_id",
	"collections":        "deleted_at encoder generation id tenant_id emptied_at",
	"generations":        "collection_id created_at encoder finished_at number removed_at state tenant_id",
	"goose_db_version":   "id is_applied tstamp version_id",
	"idempotency":        "created_at key tenant_id",
	"loops":              "holder name until",
	"outbox_claims":      "holder subject until",
	"tenant_changes":     "bytes documents id tenant_id",
	"tenant_counts":      "bytes counted_at documents tenant_id",
	"known_questions":    "due_at known question_id tenant_id tries",
	"leases":             "attempt expires_at holder kind parsing subject_id tenant_id",
	"lexical_segments":   "bytes collection_id created_at generation merged_at tenant_id",
	"llm_calls":          "created_at item question_id round step tenant_id",
	"llm_cache":          "created_at key tenant_id",
	"llm_leases":         "expires_at holder",
	"llm_days":           "day tenant_id",
	"llm_search_calls":   "created_at id tenant_id",
	"loose_objects":      "due_at object tenant_id",
	"outbox":             "created_at id message_id payload subject tenant_id trace",
	"plan_choices":       "created_at id recheck_at state tenant_id",
	"questions":          "async attempt collection_id created_at finished_at id queued_at reason_code state tenant_id trace waited_until",
	"ratings":            "question_id tenant_id",
	"reclusterings":      "asked_at collection_id tenant_id",
	"reparses":           "collection_id created_at number state tenant_id",
	"retrievals":         "created_at emptied_at question_id round tenant_id",
	"slow_queries":       "at code id kind millis plan stages tenant_id trace",
	"source_drivers":     "fields name seen_at summary",
	"sources":            "due_at id tenant_id",
	"tenants":            "created_at id llm_at_once llm_day_nanos llm_day_tokens llm_month_nanos llm_month_tokens llm_per_minute max_bytes max_documents name",
	"vector_shards":      "collection_id created_at dimension id indexed retired_at tenant_id",
	"webhook_deliveries": "attempts claimed_until finished_at id kind next_at since state subject_id tenant_id webhook_id",
	"webhooks":           "id kinds tenant_id",
	"versions": "attempt bytes collection_id curated document_id finished_at id losses number passage_count purged_at queued_at " +
		"reason_code retired_at state tenant_id trace",

	"schema_compatibility": "migration raised_at",
}

type table struct {
	name    string
	tenant  string // its tenant column
	columns []column
	parents []string
}

type column struct {
	Name    string
	Type    string
	NotNull bool
	Filled  bool // has a default
	Counted bool // always set by the table itself
}

// fill gives the values of columns that a CHECK limits.
var fill = map[string]string{
	"tenants.name":                 `'t' || replace(gen_random_uuid()::text, '-', '')`,
	"collections.name":             `'c' || gen_random_uuid()::text`,
	"api_keys.scopes":              `'{query}'`,
	"audit_sent.chain":             `'reads'`,
	"blobs.sha256":                 `sha256(gen_random_uuid()::text::bytea)`,
	"loose_objects.sha256":         `sha256(gen_random_uuid()::text::bytea)`,
	"versions.state":               `'ready'`,
	"generations.state":            `'live'`,
	"generations.segmentation":     `'{"by":"segmenter"}'`,
	"generations.number":           `(random() * 1000000000)::int`,
	"reparses.number":              `(random() * 1000000000)::int`,
	"reparses.state":               `'done'`,
	"reparsed_documents.outcome":   `'parsing'`,
	"leases.kind":                  `'version'`,
	"artifacts.stage":              `'parsed'`,
	"questions.state":              `'answered'`,
	"ratings.rating":               `'up'`,
	"passages.end_byte":            `10`,
	"documents.external_id":        `gen_random_uuid()::text`,
	"retrievals.candidates":        `'[]'`,
	"idempotency.key":              `gen_random_uuid()::text`,
	"outbox.subject":               `'sluice.test'`,
	"slow_queries.kind":            `'search'`,
	"version_labels.label":         `gen_random_uuid()::text`,
	"version_metadata.key":         `gen_random_uuid()::text`,
	"llm_calls.step":               `gen_random_uuid()::text`,
	"llm_days.day":                 `current_date - (random() * 100000)::int`,
	"llm_cache.key":                `gen_random_uuid()::text::bytea`,
	"spaces.name":                  `gen_random_uuid()::text`,
	"api_keys.hash":                `sha256(gen_random_uuid()::text::bytea)`,
	"sessions.hash":                `sha256(gen_random_uuid()::text::bytea)`,
	"versions.number":              `(random() * 1000000000)::int`,
	"sections.ordinal":             `(random() * 1000000000)::int`,
	"passages.ordinal":             `(random() * 1000000000)::int`,
	"retrievals.round":             `(random() * 1000000000)::int`,
	"citations.ordinal":            `(random() * 1000000000)::int`,
	"blob_chunks.ordinal":          `(random() * 1000000000)::int`,
	"artifacts.attempt":            `(random() * 1000000000)::int`,
	"webhooks.kinds":               `'{version.ready}'`,
	"plan_choice_questions.number": `(random() * 1000000000)::int`,
	"plan_choice_questions.source": `'made'`,
	"plan_choice_figures.number":   `(random() * 1000000000)::int`,
	"plans.name":                   `'p' || gen_random_uuid()::text`,
	"version_metadata.ordinal":     `(random() * 1000000000)::int`,
	"document_signatures.keys":     `'{}'`,
	"source_items.item":            `gen_random_uuid()::text`,
	"source_skipped.number":        `(random() * 1000000000)::bigint`,
	"sources.name":                 `'s' || gen_random_uuid()::text`,
	"access_principals.principal":  `gen_random_uuid()::text`,
	"access_members.member":        `gen_random_uuid()::text`,
	"access_mappings.kind":         `'group'`,
	"access_lists.label":           `gen_random_uuid()::text`,
	"access_nodes.node":            `gen_random_uuid()::text`,
	"document_signature_keys.key":  `(random() * 1000000000)::bigint`,
}

func TestTenantsAreApart(t *testing.T) {
	f := setUp(t, store.Options{})
	tables := tenantTables(t, f.owner)
	if len(tables) < 20 {
		t.Fatalf("found only %d tables", len(tables))
	}
	f.upload(t, f.a, f.collection, text("a.txt", "of a"))
	f.upload(t, f.b, f.foreign, text("b.txt", "of b"))
	execAs(t, f, f.a, `INSERT INTO spaces (name, dimension) VALUES ('test', 256)`)

	// A row of each tenant in each table.
	for _, tb := range tables {
		for _, p := range []schema.Principal{f.a, f.b} {
			if tb.name == "tenants" || slices.Contains(madeByTriggers, tb.name) {
				continue // made by the set-up
			}
			if err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				return insertRow(ctx, tx, tb, p.Tenant)
			}); err != nil {
				t.Fatalf("cannot make a row of %s; add what it needs to fill: %v", tb.name, err)
			}
		}
	}
	for _, tb := range tables {
		t.Run(tb.name, func(t *testing.T) { walk(t, f, tb) })
	}
}

func walk(t *testing.T, f *fixture, tb table) {
	snapshot := `SELECT coalesce(jsonb_agg(to_jsonb(x) ORDER BY to_jsonb(x)::text), '[]')::text FROM ` + tb.name + ` x`
	before := one[string](t, f, f.a, snapshot)
	if before == "[]" {
		t.Fatal("tenant A has no row: nothing is proved")
	}
	if strings.Contains(before, f.b.Tenant.String()) {
		t.Error("tenant A sees rows of B")
	}
	ofA := ` WHERE ` + tb.tenant + ` = '` + f.a.Tenant.String() + `'`
	if n := one[int](t, f, f.b, `SELECT count(*) FROM `+tb.name+ofA); n != 0 {
		t.Errorf("tenant B sees %d rows of A", n)
	}
	if n := one[int](t, f, f.b, `SELECT count(*) FROM `+tb.name); n == 0 {
		t.Error("tenant B does not see its own rows: the walk proves nothing")
	}
	asB := func(sql string) (int64, error) {
		var n int64
		err := f.AsTenant(t.Context(), f.b.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sql)
			n = tag.RowsAffected()
			return err
		})
		return n, err
	}
	for _, c := range tb.columns {
		if c.Counted {
			continue
		}
		n, err := asB(`UPDATE ` + tb.name + ` SET ` + c.Name + ` = ` + c.Name + ofA)
		if n != 0 || err != nil && !errors.Is(err, schema.ErrForbidden) {
			t.Errorf("tenant B updated %d rows of A by %s (%v)", n, c.Name, err)
		}
	}
	if n, err := asB(`DELETE FROM ` + tb.name + ofA); n != 0 || err != nil && !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("tenant B deleted %d rows of A (%v)", n, err)
	}
	// B's own rows can't be given to A, and none can be made for A.
	if _, err := asB(`UPDATE ` + tb.name + ` SET ` + tb.tenant + ` = '` + f.a.Tenant.String() + `'`); !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("tenant B gave rows to A: %v", err)
	}
	err := f.AsTenant(t.Context(), f.b.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return insertRow(ctx, tx, tb, f.a.Tenant)
	})
	if !errors.Is(err, schema.ErrForbidden) {
		t.Errorf("tenant B inserted a row of A: %v", err)
	}
	if after := one[string](t, f, f.a, snapshot); after != before {
		t.Errorf("A's rows changed\nfrom %s\nto   %s", before, after)
	}

	// No tenant, in its three forms: never set, empty, another's.
	conn := connect(t, f.owner)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for _, prepare := range []string{`SET ROLE sluice_app`, `SET sluice.tenant = ''`, `SET sluice.tenant = '` + uuid.NewString() + `'`} {
		if _, err := conn.Exec(t.Context(), prepare); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+tb.name).Scan(&n); err != nil || n != 0 {
			t.Errorf("after %s: %d rows, %v", prepare, n, err)
		}
	}
}

// insertRow makes a row of tenant from the catalog's description of the table:
// references take a row of the parent that is there (tenant A's insert by B
// takes B's, which is all that B sees).
func insertRow(ctx context.Context, tx pgx.Tx, tb table, tenant uuid.UUID) error {
	rows, err := tx.Query(ctx, `
SELECT a.attname, r.relname, b.attname
FROM pg_constraint c
JOIN pg_class r ON r.oid = c.confrelid
CROSS JOIN LATERAL unnest(c.conkey, c.confkey) AS k (mine, theirs)
JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.mine
JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.theirs
WHERE c.contype = 'f' AND c.conrelid = $1::regclass AND c.conparentid = 0`, tb.name)
	if err != nil {
		return err
	}
	from := map[string]string{}
	var mine, parent, theirs string
	if _, err := pgx.ForEachRow(rows, []any{&mine, &parent, &theirs}, func() error {
		from[mine] = `(SELECT ` + theirs + ` FROM ` + parent + ` ORDER BY 1 DESC LIMIT 1)`
		return nil
	}); err != nil {
		return err
	}
	var names, values []string
	for _, c := range tb.columns {
		value, given := fill[tb.name+"."+c.Name]
		switch {
		case c.Name == tb.tenant:
			value = `'` + tenant.String() + `'`
		case from[c.Name] != "" && c.NotNull:
			value = from[c.Name]
		case given:
		case !c.NotNull || c.Filled:
			continue
		default:
			if value = valueOf(c.Type); value == "" {
				return fmt.Errorf("no value for column %s of type %s", c.Name, c.Type)
			}
		}
		names, values = append(names, c.Name), append(values, value)
	}
	_, err = tx.Exec(ctx, `INSERT INTO `+tb.name+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(values, ", ")+`)`)
	return err
}

func valueOf(kind string) string {
	var n int
	if _, err := fmt.Sscanf(kind, "halfvec(%d)", &n); err == nil {
		return fmt.Sprintf("array_fill(0.5, ARRAY[%d])::real[]::halfvec", n)
	}
	return map[string]string{
		"uuid": `gen_random_uuid()`, "text": `'x'`, "integer": `1`, "bigint": `1`, "boolean": `true`, "bytea": `'\x01'`,
		"jsonb": `'{}'`, "timestamp with time zone": `now()`, "text[]": `'{}'`, "double precision": `1`,
		"vector": `'[1,0]'`, "real[]": `'{1}'`, "double precision[]": `'{1}'`,
	}[kind]
}

// tenantTables reads the tables with a tenant column from the catalog, parents
// before children, and fails for a table that has none and is not known to need
// none.
func tenantTables(t *testing.T, url string) []table {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	rows, err := conn.Query(t.Context(), `
SELECT c.relname,
       ARRAY(SELECT DISTINCT p.relname::text FROM pg_constraint f JOIN pg_class p ON p.oid = f.confrelid
             WHERE f.conrelid = c.oid AND f.contype = 'f' AND p.oid <> c.oid),
       (SELECT jsonb_agg(jsonb_build_object('Name', a.attname, 'Type', format_type(a.atttypid, a.atttypmod), 'NotNull', a.attnotnull,
                                            'Filled', a.atthasdef OR a.attidentity <> '',
                                            'Counted', a.attidentity = 'a' OR a.attgenerated <> '') ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname`)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]table{}
	var tb table
	if _, err := pgx.ForEachRow(rows, []any{&tb.name, &tb.parents, &tb.columns}, func() error {
		tb.tenant = "tenant_id"
		if tb.name == "tenants" {
			tb.tenant = "id"
		}
		has := slices.ContainsFunc(tb.columns, func(c column) bool { return c.Name == tb.tenant })
		if known := slices.Contains(notTenants, tb.name); has == known {
			t.Errorf("table %s: has a tenant column: %t, is known to have none: %t", tb.name, has, known)
		}
		if has {
			found[tb.name] = tb
		}
		tb.parents, tb.columns = nil, nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var out []table
	placed := map[string]bool{}
	for len(out) < len(found) {
		n := len(out)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			tb := found[name]
			ready := !slices.ContainsFunc(tb.parents, func(p string) bool { _, mine := found[p]; return mine && !placed[p] })
			if !placed[name] && ready {
				placed[name] = true
				out = append(out, tb)
			}
		}
		if len(out) == n {
			t.Fatal("the tables refer to each other in a circle")
		}
	}
	return out
}

func TestRowSecurityIsForcedEverywhere(t *testing.T) {
	f := setUp(t, store.Options{})
	conn := connect(t, f.owner)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	list := func(sql string, args ...any) []string {
		t.Helper()
		rows, err := conn.Query(t.Context(), sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const tables = ` FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') `
	const columns = ` FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') `
	var readable []string
	for table, names := range systemColumns {
		for name := range strings.FieldsSeq(names) {
			readable = append(readable, table+"."+name)
		}
	}
	const privileges = `'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'`
	for _, c := range []struct {
		what, sql string
		args      []any
	}{
		{"tables without forced row-level security", `SELECT relname` + tables + `AND NOT (relrowsecurity AND relforcerowsecurity) AND relname <> ALL ($1)`, []any{notTenants}},
		{"partitions that a role reaches directly", `SELECT rolname || ' ' || relname FROM pg_roles r, pg_class c
			WHERE r.rolname LIKE 'sluice\_%' AND c.relispartition AND (r.rolname, c.relnamespace) <> ('sluice_vectors', 'sluice_vectors'::regnamespace) AND c.relkind IN ('r', 'p')
			  AND (has_table_privilege(r.oid, c.oid, ` + privileges + `) OR has_any_column_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'))`, nil},
		{"grants to everyone", `SELECT relname || ' ' || a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
			WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND a.grantee = 0 AND c.relname NOT LIKE 'pg\_%'`, nil},
		{"roles that bypass, own, or may become more", `SELECT r.rolname FROM pg_roles r WHERE r.rolname LIKE 'sluice\_%' AND (
			r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication
			OR r.rolcanlogin <> (r.rolname = ANY ($1))
			OR EXISTS (SELECT 1 FROM pg_class c WHERE c.relowner = r.oid AND (r.rolname <> 'sluice_vectors' OR c.relnamespace <> 'sluice_vectors'::regnamespace))
			OR EXISTS (SELECT 1 FROM pg_auth_members m WHERE m.member = r.oid AND (r.rolname, m.roleid::regrole::text) NOT IN (
				('` + local.Program + `', 'sluice_app'), ('` + local.Program + `', 'sluice_auth'), ('` + local.Program + `', 'sluice_system'),
				('` + local.Vectors + `', 'sluice_vectors'))))`, []any{[]string{local.Program, local.Vectors}}},
		{"functions that run as their owner, for whom they are not", `SELECT proname || ' ' || coalesce(r.rolname, 'public')
			FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
			WHERE pronamespace = 'public'::regnamespace AND prosecdef AND a.grantee <> p.proowner AND (proname, r.rolname) NOT IN (
				('sluice_analyze_grown', 'sluice_system'), ('sluice_audit_months', 'sluice_system'), ('sluice_drop_audit_month', 'sluice_system'),
				('sluice_attach_vectors', 'sluice_vectors'), ('sluice_drop_vectors', 'sluice_vectors'))`, nil},
		{"functions that run as their owner, where others may leave functions of the same name", `SELECT proname FROM pg_proc
			WHERE prosecdef AND pronamespace = 'public'::regnamespace AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)`, nil},
		{"views, which would run as their owner", `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')`, nil},
		{"policies that let sluice_app see all", `SELECT tablename || '.' || policyname FROM pg_policies
			WHERE roles && ARRAY['sluice_app', 'public']::name[] AND (qual IS NULL OR qual NOT LIKE '%sluice.tenant%' OR with_check NOT LIKE '%sluice.tenant%')`, nil},
		{"tables that sluice_auth reaches", `SELECT relname` + tables + `AND relname NOT IN ('api_keys', 'sessions') AND has_any_column_privilege('sluice_auth', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')`, nil},
		{"ways in which sluice_auth changes keys", `SELECT p FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) p WHERE has_table_privilege('sluice_auth', 'api_keys', p)`, nil},
		{"ways in which sluice_auth changes sessions", `SELECT p FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) p WHERE has_table_privilege('sluice_auth', 'sessions', p)`, nil},
		{"tables that sluice_system reaches", `SELECT relname` + tables + `AND relname <> ALL ($1)
			AND (has_table_privilege('sluice_system', c.oid, ` + privileges + `) OR has_any_column_privilege('sluice_system', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'))`,
			[]any{slices.Collect(maps.Keys(systemColumns))}},
		{"tables that sluice_system changes as a whole", `SELECT relname` + tables + `AND relname <> ALL ('{tenants, leases}')
			AND has_table_privilege('sluice_system', c.oid, 'UPDATE')`, nil},
		{"columns that sluice_system reads", `SELECT relname || '.' || attname` + columns + `
			AND NOT relname || '.' || attname = ANY ($1) AND has_column_privilege('sluice_system', c.oid, attnum, 'SELECT')`, []any{readable}},
	} {
		if found := list(c.sql, c.args...); len(found) > 0 {
			t.Errorf("%s: %v", c.what, found)
		}
	}
	if n := len(list(`SELECT relname` + tables + `AND c.relispartition`)); n < 13 {
		t.Errorf("found only %d partitions", n)
	}
}

func TestAuthSeesKeysAlone(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, c := range []struct {
		sql string
		ok  bool
	}{
		{`SELECT count(*) FROM api_keys`, true},
		{`SELECT count(*) FROM tenants`, false},
		{`UPDATE api_keys SET scopes = '{admin}'`, false},
		{`SELECT count(*) FROM sections`, false},
	} {
		err := f.AsAuth(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		if c.ok && err != nil || !c.ok && !errors.Is(err, schema.ErrForbidden) {
			t.Errorf("%s: %v", c.sql, err)
		}
	}
}

func TestAuditCannotBeChanged(t *testing.T) {
	f := setUp(t, store.Options{})
	f.upload(t, f.a, f.collection, text("a.txt", "of a"))
	for _, sql := range []string{`UPDATE audit SET actor = 'nobody'`, `DELETE FROM audit`, `TRUNCATE audit`} {
		err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if !errors.Is(err, schema.ErrForbidden) {
			t.Errorf("as the tenant, %s: %v", sql, err)
		}
		// Even by the owner of the table.
		conn := connect(t, f.owner)
		_, err = conn.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("as the owner, %s: %v", sql, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	entries, _, err := f.Audit(t.Context(), f.a, schema.AuditQuery{})
	if err != nil || len(entries) == 0 || entries[0].Action != "documents.upload" {
		t.Errorf("%v, %v", entries, err)
	}
}

// A tenant-bound transaction leaves nothing on its connection.
func TestDoorsLeaveNothingBehind(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 1})
	f.upload(t, f.a, f.collection, text("a.txt", "of a"))
	stop := errors.New("stop")
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error { return stop })
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	err = f.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var tenant string
		if err := tx.QueryRow(ctx, `SELECT current_setting('sluice.tenant')`).Scan(&tenant); err != nil || tenant != "" {
			t.Errorf("the system's door carries tenant %q, %v", tenant, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AsTenant(t.Context(), uuid.Nil, func(context.Context, pgx.Tx) error { t.Error("ran"); return nil }); !errors.Is(err, schema.ErrInvalid) {
		t.Error(err)
	}
}
