package store_test

// This file tampers with the chains of the audit log, as the owner of the tables, who can disable
// triggers and row-level security.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// auditTables are all tables of the log.
var auditTables = []string{"audit", "audit_links", "audit_chains", "audit_reads", "audit_read_chains"}

// readsOf returns n reads to append.
func readsOf(from string, n int) []schema.AuditRead {
	out := make([]schema.AuditRead, n)
	for i := range out {
		key, document := schema.NewID(), schema.NewID()
		out[i] = schema.AuditRead{ID: schema.NewID(), At: time.Now().Truncate(time.Microsecond), Action: "search", Status: 200, Key: &key, KeyName: from,
			Person: "Anna", Address: "192.0.2.1", Agent: "test", Collection: "c", Query: fmt.Sprint("what is ", i, "?"), Documents: []uuid.UUID{document, key}}
	}
	return out
}

func (f *fixture) appendReads(t testing.TB, p schema.Principal, reads []schema.AuditRead) {
	t.Helper()
	if err := f.AppendReads(t.Context(), p.Tenant, reads); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) verify(t testing.TB, p schema.Principal, chain schema.AuditChain) schema.AuditVerdict {
	t.Helper()
	v, err := f.VerifyAudit(t.Context(), p.Tenant, chain)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// unprotectedConn returns a connection of the owner with the log's protection disabled.
func unprotectedConn(t *testing.T, f *fixture) *pgx.Conn {
	t.Helper()
	conn := connect(t, f.owner)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tables := append([]string{}, auditTables...)
	rows, err := conn.Query(t.Context(), `SELECT c.relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'audit_reads'::regclass`)
	if err != nil {
		t.Fatal(err)
	}
	months, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range append(tables, months...) {
		if _, err := conn.Exec(t.Context(), `ALTER TABLE `+table+` NO FORCE ROW LEVEL SECURITY; ALTER TABLE `+table+` DISABLE TRIGGER USER`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), `DROP INDEX audit_links_entry`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// tampering is what the owner does to a tenant's chain, and the number at which it is detected.
type tampering struct {
	sql    string
	number int64
}

// expectFound tampers in each way with a chain of its own, which write makes, and verifies the
// chain before and after.
func expectFound(t *testing.T, chain schema.AuditChain, cases map[string]tampering, write func(f *fixture, p schema.Principal)) {
	f := setUp(t, store.Options{})
	of := map[string]schema.Principal{}
	for name := range cases {
		p, _ := f.tenant(t, "t-"+strings.ReplaceAll(name, " ", "-"))
		write(f, p)
		of[name] = p
		if v := f.verify(t, p, chain); v.Break != nil || v.Entries < 5 || v.Number != v.Entries || len(v.Hash) != 64 {
			t.Fatalf("before: %+v, %+v", v, v.Break)
		}
	}
	write(f, f.b)
	conn := unprotectedConn(t, f)
	for name, c := range cases {
		if _, err := conn.Exec(t.Context(), c.sql, of[name].Tenant); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, c := range cases {
		if v := f.verify(t, of[name], chain); v.Break == nil || v.Break.Number != c.number {
			t.Errorf("%s: found %+v, want a break at %d", name, v.Break, c.number)
		}
	}
	if v := f.verify(t, f.b, chain); v.Break != nil || v.Entries < 5 {
		t.Errorf("the chain of another tenant: %+v, %+v", v, v.Break)
	}
}

func TestTamperingWithReadsIsFound(t *testing.T) {
	expectFound(t, schema.AuditReads, map[string]tampering{
		"changed": {`UPDATE audit_reads SET query = 'something else' WHERE tenant_id = $1 AND number = 3`, 3},
		"hidden":  {`UPDATE audit_reads SET documents = '{}' WHERE tenant_id = $1 AND number = 5`, 5},
		"removed": {`DELETE FROM audit_reads WHERE tenant_id = $1 AND number = 4`, 4},
		"first":   {`DELETE FROM audit_reads WHERE tenant_id = $1 AND number = 1`, 1},
		"last":    {`DELETE FROM audit_reads WHERE tenant_id = $1 AND number = 6`, 6},
		"all":     {`DELETE FROM audit_reads WHERE tenant_id = $1`, 1},
		"reordered": {`UPDATE audit_reads r SET id = o.id, at = o.at, query = o.query, documents = o.documents, key_id = o.key_id
			FROM audit_reads o WHERE r.tenant_id = $1 AND o.tenant_id = $1 AND r.number IN (2, 3) AND o.number = 5 - r.number`, 2},
		"inserted": {`INSERT INTO audit_reads (tenant_id, number, written, hash, id, at, action, status)
			SELECT tenant_id, number, written + interval '1 microsecond', hash, gen_random_uuid(), at, action, status FROM audit_reads WHERE tenant_id = $1 AND number = 3`, 3},
		"at the end": {`INSERT INTO audit_reads (tenant_id, number, written, hash, id, at, action, status)
			SELECT tenant_id, 7, written, hash, gen_random_uuid(), at, action, status FROM audit_reads WHERE tenant_id = $1 AND number = 3`, 7},
		"of another": {`UPDATE audit_reads SET tenant_id = gen_random_uuid() WHERE tenant_id = $1 AND number = 2`, 2},
		"cut": {`WITH gone AS (DELETE FROM audit_reads WHERE tenant_id = $1 AND number > 4)
			UPDATE audit_read_chains SET number = 4 WHERE tenant_id = $1`, 4},
	}, func(f *fixture, p schema.Principal) {
		f.appendReads(t, p, readsOf("one", 4))
		f.appendReads(t, p, readsOf("two", 2))
	})
}

func TestTamperingWithChangesIsFound(t *testing.T) {
	const third = `(SELECT entry_id FROM audit_links WHERE tenant_id = $1 AND number = 3)`
	expectFound(t, schema.AuditChanges, map[string]tampering{
		"changed": {`UPDATE audit SET actor = 'nobody' WHERE tenant_id = $1 AND id = ` + third, 3},
		"detail":  {`UPDATE audit SET detail = '{"other": 1}' WHERE tenant_id = $1 AND id = ` + third, 3},
		"removed": {`DELETE FROM audit WHERE tenant_id = $1 AND id = ` + third, 3},
		"removed with link": {`WITH l AS (DELETE FROM audit_links WHERE tenant_id = $1 AND number = 3 RETURNING *)
			DELETE FROM audit a USING l WHERE a.tenant_id = $1 AND a.id = l.entry_id`, 3},
		"reordered": {`UPDATE audit_links l SET entry_id = o.entry_id FROM audit_links o
			WHERE l.tenant_id = $1 AND o.tenant_id = $1 AND l.number IN (2, 3) AND o.number = 5 - l.number`, 2},
		"inserted": {`INSERT INTO audit (tenant_id, id, actor, action, target)
			VALUES ($1, gen_random_uuid(), 'system', 'made.up', '')`, 0},
		"said to be retained": {`UPDATE audit_links SET removed_at = now() WHERE tenant_id = $1 AND number = 3`, 3},
		"end moved":           {`UPDATE audit_chains SET number = 2 WHERE tenant_id = $1`, 3},
	}, func(f *fixture, p schema.Principal) {
		for i := range 3 {
			if _, err := f.CreateCollection(t.Context(), p, schema.NewCollection{Name: fmt.Sprint("c", i)}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Nobody can change a chain: neither the tenant, nor the system, nor the owner's statements.
func TestChainsCannotBeChanged(t *testing.T) {
	f := setUp(t, store.Options{})
	f.appendReads(t, f.a, readsOf("one", 2))
	month := "audit_reads_" + time.Now().UTC().Format("200601")
	for _, sql := range []string{
		`UPDATE audit_reads SET query = ''`, `DELETE FROM audit_reads`, `TRUNCATE audit_reads`, `DELETE FROM ` + month, `TRUNCATE ` + month, `UPDATE ` + month + ` SET query = ''`,
		`UPDATE audit_links SET removed_at = now()`, `DELETE FROM audit_links`, `TRUNCATE audit_links`,
		`UPDATE audit_chains SET number = 0`, `DELETE FROM audit_chains`, `TRUNCATE audit_chains`, `DELETE FROM audit_read_chains`, `TRUNCATE audit_read_chains`,
	} {
		run := func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}
		if err := f.AsTenant(t.Context(), f.a.Tenant, run); !errors.Is(err, schema.ErrForbidden) {
			t.Errorf("as the tenant, %s: %v", sql, err)
		}
		if err := f.AsSystem(t.Context(), run); !errors.Is(err, schema.ErrForbidden) {
			t.Errorf("as the system, %s: %v", sql, err)
		}
		conn := connect(t, f.owner)
		_, err := conn.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("as the owner, %s: %v", sql, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, chain := range []schema.AuditChain{schema.AuditReads, schema.AuditChanges} {
		if v := f.verify(t, f.a, chain); v.Break != nil || v.Entries < 2 {
			t.Errorf("%+v, %+v", v, v.Break)
		}
	}
}

// Several processes write for one tenant at once, changes and reads: each kind has one chain.
func TestConcurrentWritersKeepOneChain(t *testing.T) {
	f := setUp(t, store.Options{})
	others := []*fixture{f, {All: open(t, f.url, store.Options{})}}
	const rounds, batch = 10, 3
	changes := f.verify(t, f.a, schema.AuditChanges).Number
	var wg sync.WaitGroup
	for i, process := range others {
		for j := range 2 {
			wg.Go(func() {
				for n := range rounds {
					if err := process.AppendReads(t.Context(), f.a.Tenant, readsOf(fmt.Sprint(i, j), batch)); err != nil {
						t.Error(err)
					}
					name := fmt.Sprintf("c-%d-%d-%d", i, j, n)
					if _, err := process.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: name}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if v := f.verify(t, f.a, schema.AuditReads); v.Break != nil || v.Entries != 4*rounds*batch {
		t.Errorf("reads: %+v, %+v", v, v.Break)
	}
	if v := f.verify(t, f.a, schema.AuditChanges); v.Break != nil || v.Entries != changes+4*rounds {
		t.Errorf("changes: %+v, %+v", v, v.Break)
	}
}

// A transaction with an uncommitted change does not block other transactions of its tenant.
func TestChangesWaitForEachOtherAtTheirCommitAlone(t *testing.T) {
	f := setUp(t, store.Options{})
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.Audit(ctx, tx, f.a.Tenant, f.a, "test.open", "", nil); err != nil {
			return err
		}
		other := open(t, f.url, store.Options{Lane: store.Lane(5 * time.Second)})
		_, err := other.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: "meanwhile"})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if v := f.verify(t, f.a, schema.AuditChanges); v.Break != nil {
		t.Errorf("%+v", v.Break)
	}
}

// The entries that retention keeps are verified, and those that it removed do not count as missing.
func TestRetentionKeepsTheRestVerifiable(t *testing.T) {
	f := setUp(t, store.Options{})
	execAs(t, f, f.a, `INSERT INTO audit (tenant_id, id, at, actor, action, target)
		SELECT $1, gen_random_uuid(), now() - make_interval(days => n), 'system', 'test', n::text FROM unnest('{900, 10, 500, 20}'::int[]) n`, f.a.Tenant)
	before := f.verify(t, f.a, schema.AuditChanges)
	if before.Break != nil {
		t.Fatalf("%+v", before.Break)
	}
	if n, err := f.ForgetAudit(t.Context(), 400, 10); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if v := f.verify(t, f.a, schema.AuditChanges); v.Break != nil || v.Removed != 2 || v.Entries != before.Entries-2 || v.Number != before.Number {
		t.Errorf("after a part went: %+v, %+v", v, v.Break)
	}

	// A month of reads is dropped as a whole, once all of it is old enough.
	f.appendReads(t, f.a, readsOf("old", 3))
	old := ageMonth(t, f)
	f.appendReads(t, f.a, readsOf("new", 4)) // creates this month's partition
	if got, err := f.ForgetReads(t.Context(), 100); got != "" || err != nil {
		t.Errorf("what is not old enough went: %q, %v", got, err)
	}
	if got, err := f.ForgetReads(t.Context(), 0); got != "" || err != nil {
		t.Errorf("kept for ever: %q, %v", got, err)
	}
	if got, err := f.ForgetReads(t.Context(), 30); !strings.HasSuffix(got, old.Format("200601")) || err != nil {
		t.Errorf("the old month: %q, %v", got, err)
	}
	if got, err := f.ForgetReads(t.Context(), 1); got != "" || err != nil {
		t.Errorf("a month of less than 30 days went: %q, %v", got, err)
	}
	if v := f.verify(t, f.a, schema.AuditReads); v.Break != nil || v.KeptAfter != 3 || v.Entries != 4 || v.Number != 7 {
		t.Errorf("%+v, %+v", v, v.Break)
	}
}

// ageMonth makes this month's partition of reads three months older, and returns that month.
func ageMonth(t *testing.T, f *fixture) time.Time {
	t.Helper()
	conn := unprotectedConn(t, f)
	month := time.Now().UTC()
	old := time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -3, 0)
	for _, sql := range []string{
		`ALTER TABLE audit_reads DETACH PARTITION audit_reads_` + month.Format("200601"),
		`ALTER TABLE audit_reads_` + month.Format("200601") + ` RENAME TO audit_reads_` + old.Format("200601"),
		`UPDATE audit_reads_` + old.Format("200601") + ` SET written = '` + old.Format(time.RFC3339) + `'`,
		`ALTER TABLE audit_reads ATTACH PARTITION audit_reads_` + old.Format("200601") + ` FOR VALUES FROM ('` + old.Format(time.RFC3339) + `') TO ('` +
			old.AddDate(0, 1, 0).Format(time.RFC3339) + `')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return old
}

// TestAMonthIsDroppedDuringAVerification: the verification has begun, and read nothing yet.
func TestAMonthIsDroppedDuringAVerification(t *testing.T) {
	f := setUp(t, store.Options{})
	f.appendReads(t, f.a, readsOf("old", 3))
	ageMonth(t, f)
	f.appendReads(t, f.a, readsOf("new", 4))
	verifier := open(t, f.url, store.Options{Name: "verifier"})
	verdict := make(chan schema.AuditVerdict, 1)
	conn := connect(t, adminURL(t, f.url))
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `LOCK TABLE audit_read_chains`); err != nil {
			return err
		}
		go func() {
			v, err := verifier.VerifyAudit(t.Context(), f.a.Tenant, schema.AuditReads)
			if err != nil {
				t.Error(err)
			}
			verdict <- v
		}()
		f.awaitLock(t, "verifier")
		_, err := tx.Exec(t.Context(), `SELECT sluice_drop_audit_month(30)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if v := <-verdict; v.Break != nil || v.KeptAfter != 3 || v.Entries != 4 || v.Number != 7 {
		t.Errorf("%+v, %+v", v, v.Break)
	}
}

func TestReadsAreListedFilteredAndExported(t *testing.T) {
	f := setUp(t, store.Options{})
	all := append(readsOf("one", 3), readsOf("two", 2)...)
	all[1].Action, all[1].Status = "get-document", 404
	all[3].At = all[3].At.Add(-time.Hour)
	f.appendReads(t, f.a, all)
	f.appendReads(t, f.b, readsOf("other", 2))
	collection := uuid.New()
	inside := readsOf("three", 1)
	inside[0].Collection, inside[0].Target, inside[0].Person = collection.String(), collection.String(), "Bert"
	f.appendReads(t, f.a, inside)
	for name, c := range map[string]struct {
		q    schema.AuditQuery
		want int
	}{
		"all":        {schema.AuditQuery{}, 6},
		"action":     {schema.AuditQuery{Action: "get-document"}, 1},
		"key":        {schema.AuditQuery{Actor: all[2].Key.String()}, 1},
		"key's name": {schema.AuditQuery{Actor: "one"}, 3},
		"person":     {schema.AuditQuery{Actor: "Bert"}, 1},
		"document":   {schema.AuditQuery{Document: all[4].Documents[0]}, 1},
		"target":     {schema.AuditQuery{Document: collection}, 1},
		"collection": {schema.AuditQuery{Collection: collection}, 1},
		"to":         {schema.AuditQuery{To: all[0].At.Add(-time.Minute)}, 1},
		"from":       {schema.AuditQuery{From: all[0].At.Add(-time.Minute)}, 5},
	} {
		got, next, err := f.Reads(t.Context(), f.a.Tenant, c.q)
		if err != nil || len(got) != c.want || next != "" {
			t.Errorf("%s: %d entries, %q, %v", name, len(got), next, err)
		}
	}
	var seen []schema.AuditRead
	for cursor := ""; ; {
		page, next, err := f.Reads(t.Context(), f.a.Tenant, schema.AuditQuery{PageQuery: schema.PageQuery{Limit: 4, Cursor: cursor}})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	if len(seen) != 6 || seen[5].ID != all[0].ID || !seen[5].At.Equal(all[0].At) || len(seen[5].Documents) != 2 || seen[5].Query != all[0].Query {
		t.Errorf("%+v", seen)
	}
	if _, _, err := f.Reads(t.Context(), f.a.Tenant, schema.AuditQuery{PageQuery: schema.PageQuery{Cursor: "x"}}); !errors.Is(err, schema.ErrInvalid) {
		t.Error(err)
	}
	lines, err := f.AuditLines(t.Context(), f.a.Tenant, schema.AuditReads, 2, 3)
	if err != nil || len(lines) != 3 || lines[0].Number != 3 || lines[0].Read.ID != all[2].ID || lines[0].Tenant != f.a.Tenant {
		t.Errorf("%+v, %v", lines, err)
	}
	lines, err = f.AuditLines(t.Context(), f.a.Tenant, schema.AuditChanges, 0, 100)
	if err != nil || len(lines) < 2 || lines[0].Number != 1 || lines[0].Change.Action != "tenant.create" {
		t.Errorf("%+v, %v", lines, err)
	}
}

func TestHowFarTheLogWasSentIsKept(t *testing.T) {
	f := setUp(t, store.Options{})
	f.appendReads(t, f.a, readsOf("one", 3))
	backlog := func() (out []schema.AuditBacklog) {
		all, err := f.UnsentAudit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			if b.Tenant == f.a.Tenant {
				out = append(out, b)
			}
		}
		return out
	}
	sent := func(chain schema.AuditChain, number int64) {
		if err := f.AuditSent(t.Context(), f.a.Tenant, chain, number); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(backlog()); got != fmt.Sprint([]schema.AuditBacklog{{Tenant: f.a.Tenant, Chain: schema.AuditChanges}, {Tenant: f.a.Tenant, Chain: schema.AuditReads}}) {
		t.Errorf("before anything is sent: %s", got)
	}
	sent(schema.AuditChanges, 1000)
	sent(schema.AuditReads, 2)
	sent(schema.AuditReads, 1) // by a process that is no longer the leader
	if got := fmt.Sprint(backlog()); got != fmt.Sprint([]schema.AuditBacklog{{Tenant: f.a.Tenant, Chain: schema.AuditReads, Sent: 2}}) {
		t.Errorf("when two reads are sent: %s", got)
	}
	sent(schema.AuditReads, 3)
	if got := backlog(); len(got) != 0 {
		t.Errorf("when all is sent: %+v", got)
	}
}
