package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

func TestTenants(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	n := int64(7)
	made, err := f.CreateTenant(ctx, f.a, schema.NewTenant{Name: "third", MaxDocuments: &n}, sealed("first"))
	if err != nil || made.Name != "third" || *made.MaxDocuments != 7 || made.MaxBytes != nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := f.CreateTenant(ctx, f.a, schema.NewTenant{Name: "third"}, sealed("first")); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("a name twice: %v", err)
	}
	less := int64(-1)
	for _, bad := range []schema.NewTenant{{Name: ""}, {Name: "No Spaces"}, {Name: "ok", MaxBytes: &less}} {
		if _, err := f.CreateTenant(ctx, f.a, bad, sealed("first")); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if got, err := f.TenantNamed(ctx, "third"); err != nil || got.ID != made.ID {
		t.Error(got, err)
	}
	for _, id := range []uuid.UUID{schema.NewID(), uuid.Nil} {
		if _, err := f.Tenant(ctx, id); !errors.Is(err, schema.ErrNotFound) {
			t.Error(err)
		}
		if _, err := f.SetQuotas(ctx, f.a, id, nil, nil); !errors.Is(err, schema.ErrNotFound) {
			t.Error(err)
		}
	}
	if got, err := f.SetQuotas(ctx, f.a, made.ID, nil, &n); err != nil || got.MaxDocuments != nil || *got.MaxBytes != 7 {
		t.Error(got, err)
	}
	list, next, err := f.Tenants(ctx, schema.PageQuery{Limit: 2})
	if err != nil || len(list) != 2 || next == "" {
		t.Fatal(list, next, err)
	}
	if list, next, err = f.Tenants(ctx, schema.PageQuery{Limit: 2, Cursor: next}); err != nil || len(list) != 1 || next != "" || list[0].ID != made.ID {
		t.Fatal(list, next, err)
	}
	// The operator's actions are in the audit log of the tenant that they changed.
	entries, _, err := f.Audit(ctx, schema.Principal{Tenant: made.ID}, schema.AuditQuery{})
	if err != nil || len(entries) != 3 || entries[0].Action != "tenant.quotas" || entries[0].Actor != "key:"+f.a.Key.String() {
		t.Errorf("%+v, %v", entries, err)
	}
}

func TestAuditPages(t *testing.T) {
	f := setUp(t, store.Options{})
	for i := range 5 {
		if _, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: fmt.Sprint("c", i)}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uuid.UUID]bool{}
	last := schema.AuditEntry{}
	q := schema.PageQuery{Limit: 2}
	for {
		list, next, err := f.Audit(t.Context(), f.a, schema.AuditQuery{PageQuery: q})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if seen[e.ID] || !last.At.IsZero() && e.At.After(last.At) {
				t.Errorf("%+v after %+v", e, last)
			}
			seen[e.ID], last = true, e
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	if len(seen) != 8 { // tenant, its key, its first collection, and these
		t.Errorf("%d entries", len(seen))
	}
}

func TestTransactionsRepeatAfterDeadlock(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, name := range []string{"x", "y"} {
		if _, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	// Each locks one row, waits until the other has done so too, and then locks the other's.
	var wg, both sync.WaitGroup
	both.Add(2)
	var tries [2]int
	for i, order := range [][2]string{{"x", "y"}, {"y", "x"}} {
		wg.Go(func() {
			err := f.AsTenant(context.Background(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				tries[i]++
				for n, name := range order {
					if _, err := tx.Exec(ctx, `UPDATE collections SET description = description || 'z' WHERE name = $1`, name); err != nil {
						return err
					}
					if n == 0 && tries[i] == 1 {
						both.Done()
						both.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if tries[0]+tries[1] < 3 {
		t.Errorf("no deadlock: %v tries", tries)
	}
	if got := one[string](t, f, f.a, `SELECT string_agg(description, ' ') FROM collections WHERE name IN ('x', 'y')`); got != "zz zz" {
		t.Errorf("descriptions %q: a change was lost or done twice", got)
	}
}

func TestErrorsGetTheirMeaning(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, c := range []struct {
		sql  string
		want error
	}{
		{`SELECT 1 FROM documents WHERE false`, schema.ErrNotFound},
		{`INSERT INTO collections (tenant_id, id, name) SELECT tenant_id, id, 'other' FROM collections RETURNING 1`, schema.ErrConflict},
		{`INSERT INTO documents (tenant_id, id, collection_id, external_id) SELECT id, gen_random_uuid(), gen_random_uuid(), 'x' FROM tenants RETURNING 1`, schema.ErrNotFound},
		{`INSERT INTO collections (tenant_id, id, name) SELECT id, gen_random_uuid(), 'not valid' FROM tenants RETURNING 1`, schema.ErrInvalid},
		{`SELECT 'x'::text::int`, schema.ErrInvalid},
		{`SELECT 1 FROM no_such_table`, schema.ErrUnavailable},
		{`DELETE FROM tenants RETURNING 1`, schema.ErrForbidden},
	} {
		err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			var n int
			return tx.QueryRow(ctx, c.sql).Scan(&n)
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.sql, err, c.want)
		}
		var pg *pgconn.PgError
		if c.want != schema.ErrNotFound && !errors.As(err, &pg) {
			t.Errorf("%s: the driver's error is lost: %v", c.sql, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Tenant(cancelled, f.a.Tenant); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := store.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none", store.Options{}); !errors.Is(err, schema.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := store.Open(t.Context(), "http://user:secret@x/", store.Options{}); !errors.Is(err, schema.ErrInvalid) {
		t.Error(err)
	}
}

func TestWritersOfTheOutboxTellWhenTheyHaveCommitted(t *testing.T) {
	f := setUp(t, store.Options{})
	rows := func() int64 {
		n, _, err := f.OutboxDepth(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, logged := rows(), 0
	f.OnOutbox(func() {
		if logged++; rows() == before {
			t.Error("what was told of is not there yet")
		}
	})
	f.upload(t, f.a, f.collection, text("a", "x"))
	if logged != 1 {
		t.Errorf("an upload told of itself %d times", logged)
	}
	f.upload(t, f.a, f.collection, text("a", "x"))
	if logged != 1 {
		t.Error("one that changes nothing told of it")
	}
	again := schema.Reply{Status: 200}
	if _, err := f.Store.Once(t.Context(), f.a, "key", "upload", []byte("h"), func(ctx context.Context) *schema.Reply {
		if _, err := f.Upload(ctx, f.a, f.collection, []schema.Upload{text("b", "y")}); err != nil {
			t.Error(err)
		}
		if logged != 1 {
			t.Error("told of within the transaction")
		}
		return &again
	}); err != nil {
		t.Fatal(err)
	}
	if logged != 2 {
		t.Errorf("a request with a key told of itself %d times", logged-1)
	}
}

// After a restart of the server all connections of the pool are dead; callers do not notice.
func TestDeadConnectionsAreReplaced(t *testing.T) {
	f := setUp(t, store.Options{})
	database, err := pgx.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	// Several connections, all in use at once, then all killed.
	var wg, all sync.WaitGroup
	all.Add(12) // more than a transaction's tries
	for range 12 {
		wg.Go(func() {
			err := f.AsTenant(context.Background(), f.a.Tenant, func(context.Context, pgx.Tx) error {
				all.Done()
				all.Wait()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	execute(t, localtest.Postgres(t).AdminURL(database.Database),
		`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	for range 5 {
		if _, err := f.Tenant(t.Context(), f.a.Tenant); err != nil {
			t.Error(err)
		}
	}
}
