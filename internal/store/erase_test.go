package store_test

// This file checks that nothing of an erased tenant remains, in any table with a tenant column or
// in S3.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/backups"
	"github.com/sluice-rag/sluice/internal/store/erasures"
	"github.com/sluice-rag/sluice/schema"
)

// rowsOf counts a tenant's rows in all tables with a tenant column, without row-level security.
func (f *fixture) rowsOf(t *testing.T, p schema.Principal) map[string]int {
	t.Helper()
	conn := connect(t, adminURL(t, f.url))
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	out := map[string]int{}
	for _, tb := range tenantTables(t, f.owner) {
		var n int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+tb.name+` WHERE `+tb.tenant+` = $1`, p.Tenant).Scan(&n); err != nil {
			t.Fatal(err)
		}
		out[tb.name] = n
	}
	return out
}

func TestErasedTenantsAreGone(t *testing.T) {
	f := setUpS3(t, store.Options{KeepSuperseded: -1})
	f.upload(t, f.a, f.collection, text("a.txt", "of a"))
	f.upload(t, f.b, f.foreign, text("b.txt", "of b"))
	execAs(t, f.fixture, f.a, `INSERT INTO spaces (name, dimension) VALUES ('test', 256)`)
	for _, tb := range tenantTables(t, f.owner) {
		for _, p := range []schema.Principal{f.a, f.b} {
			if tb.name == "tenants" || slices.Contains(madeByTriggers, tb.name) {
				continue
			}
			if err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				return insertRow(ctx, tx, tb, p.Tenant)
			}); err != nil {
				t.Fatalf("cannot make a row of %s: %v", tb.name, err)
			}
		}
	}
	// Files of an interrupted upload are not written any more.
	execAs(t, f.fixture, f.a, `UPDATE loose_objects SET due_at = now() - interval '1 hour'`)
	before := f.rowsOf(t, f.a)
	for table, n := range before {
		if n == 0 {
			t.Errorf("the tenant has no row in %s: nothing is proved of it", table)
		}
	}
	others, files := f.rowsOf(t, f.b), len(f.files(t))
	o := erasures.Options{URL: adminURL(t, f.url), Objects: f.bucket}
	erase := func(o erasures.Options, name string) (erasures.Erased, error) {
		return erasures.Erase(t.Context(), "tenant-a", name, o)
	}
	if _, err := erase(o, "tenant-b"); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("with another name: %v", err)
	}
	if _, err := erase(erasures.Options{URL: f.owner, Objects: f.bucket}, "tenant-a"); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "superuser") {
		t.Errorf("as the owner: %v", err)
	}
	if _, err := erase(erasures.Options{URL: o.URL}, "tenant-a"); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("without settings of S3: %v", err)
	}
	if now := f.rowsOf(t, f.a); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("refused, and yet %v is %v", before, now)
	}

	// After an interruption it continues; backups are refused until then.
	f.s3.Stop()
	if _, err := erase(o, "tenant-a"); !errors.Is(err, schema.ErrUnavailable) {
		t.Fatalf("without S3: %v", err)
	}
	if _, err := backups.OpenSource(t.Context(), backups.SourceOptions{URL: o.URL, Objects: f.bucket}); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "tenant-a") {
		t.Errorf("a backup of half a tenant: %v", err)
	}
	f.s3.Start()
	r, err := erase(o, "tenant-a")
	if err != nil {
		t.Fatal(err)
	}
	for table, n := range f.rowsOf(t, f.a) {
		if n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	if now := f.rowsOf(t, f.b); fmt.Sprint(now) != fmt.Sprint(others) {
		t.Errorf("another tenant's rows were %v and are %v", others, now)
	}
	if len(f.files(t)) != files-1 {
		t.Errorf("%d files of %d are left in S3", len(f.files(t)), files)
	}
	if r.Rows["public.audit"] != int64(before["audit"]) || r.Rows["public.tenants"] != 1 || r.Bytes == 0 || r.Objects == 0 {
		t.Errorf("reported %+v", r)
	}
	if _, err := erase(o, "tenant-a"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	f.upload(t, f.b, f.foreign, text("c.txt", "goes on"))
}

func TestErasureWaitsForWhatIsWritten(t *testing.T) {
	f := setUpS3(t, store.Options{})
	f.upload(t, f.a, f.collection, text("a.txt", "of a"))
	execAs(t, f.fixture, f.a, `INSERT INTO loose_objects (tenant_id, object, sha256, due_at)
		VALUES ($1, gen_random_uuid(), sha256('x'), now() + interval '1 hour')`, f.a.Tenant)
	o := erasures.Options{URL: adminURL(t, f.url), Objects: f.bucket}
	if _, err := erasures.Erase(t.Context(), f.a.Tenant.String(), "tenant-a", o); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "again after") {
		t.Errorf("while a file is written: %v", err)
	}
	execute(t, o.URL, `UPDATE loose_objects SET due_at = now()`)
	if _, err := erasures.Erase(t.Context(), f.a.Tenant.String(), "tenant-a", o); err != nil {
		t.Error(err)
	}
}

// TestReadsOfAnErasedTenantAreRefused: requests that came before the erasure may be recorded after
// it.
func TestReadsOfAnErasedTenantAreRefused(t *testing.T) {
	f := setUp(t, store.Options{})
	f.appendReads(t, f.a, readsOf("before", 2))
	if _, err := erasures.Erase(t.Context(), f.a.Tenant.String(), "tenant-a", erasures.Options{URL: adminURL(t, f.url)}); err != nil {
		t.Fatal(err)
	}
	if err := f.AppendReads(t.Context(), f.a.Tenant, readsOf("after", 2)); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("reads were appended: %v", err)
	}
	for table, n := range f.rowsOf(t, f.a) {
		if n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	f.appendReads(t, f.b, readsOf("another", 1))
	f.appendReads(t, schema.Principal{Tenant: schema.Nobody}, readsOf("nobody", 1))
}

// TestErasureWaitsForConcurrentFirstReads: nothing refers to the tenant's row while a chain of
// reads is begun.
func TestErasureWaitsForConcurrentFirstReads(t *testing.T) {
	f := setUp(t, store.Options{})
	admin := adminURL(t, f.url)
	execute(t, admin, `CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
		CREATE TRIGGER held AFTER INSERT ON audit_reads FOR EACH STATEMENT EXECUTE FUNCTION held()`)
	holder := connect(t, admin)
	defer holder.Close(context.Background()) //nolint:errcheck // a test's
	hold := func(sql string) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	hold(`SELECT pg_advisory_lock(1)`)
	writer := open(t, f.url, store.Options{Name: "writer"})
	written, erased := make(chan error, 1), make(chan error, 1)
	go func() { written <- writer.AppendReads(t.Context(), f.a.Tenant, readsOf("first", 2)) }()
	f.awaitLock(t, "writer")
	go func() {
		_, err := erasures.Erase(t.Context(), f.a.Tenant.String(), "tenant-a", erasures.Options{URL: admin})
		erased <- err
	}()
	for waits := false; !waits; {
		select {
		case err := <-erased:
			t.Fatalf("the erasure did not wait, and gave %v", err)
		default:
		}
		if err := holder.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'sluice tenants erase' AND wait_event_type = 'Lock')`).
			Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	hold(`SELECT pg_advisory_unlock(1)`)
	if err := errors.Join(<-written, <-erased); err != nil {
		t.Fatal(err)
	}
	for table, n := range f.rowsOf(t, f.a) {
		if n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}
