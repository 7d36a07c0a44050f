package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const storedSQL = `SELECT concat_ws(' ', (SELECT count(*) FROM documents WHERE deleted_at IS NULL), (SELECT coalesce(sum(bytes), 0) FROM blobs))`

// stored returns what the counts say, what counting all rows says, and whether the tenant was ever
// counted in full.
func (f *fixture) stored(t *testing.T, p schema.Principal) (stored, real string, counted bool) {
	t.Helper()
	err := f.ReadTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		documents, bytes, is, err := store.Stored(ctx, tx, p.Tenant)
		if err != nil {
			return err
		}
		stored, counted = fmt.Sprint(documents, " ", bytes), is
		return tx.QueryRow(ctx, storedSQL).Scan(&real)
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored, real, counted
}

// TestConcurrentChangesOfWhatIsStoredAreCounted: the counts are right at any time, while many
// transactions change what is stored and others add up and recount.
func TestConcurrentChangesOfWhatIsStoredAreCounted(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	var changing, adding sync.WaitGroup
	over := make(chan struct{})
	for _, work := range []func() error{
		func() error { return f.AddUpStored(t.Context()) },
		func() error { _, err := f.RecountStored(t.Context(), 0, 10); return err },
		func() error { _, err := f.PurgeOnce(t.Context(), 5); return err },
		func() error {
			if stored, real, _ := f.stored(t, f.a); stored != real {
				return fmt.Errorf("said to be stored: %s; there are: %s", stored, real)
			}
			return nil
		},
	} {
		adding.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 4 {
		changing.Go(func() {
			for n := range 12 {
				name := fmt.Sprint(i, n%3)
				up, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text(name, fmt.Sprintf("%*d", n+1, i)), text(name+"b", "same for all")})
				if err != nil {
					t.Error(err)
					return
				}
				if n%3 == 2 {
					if err := f.DeleteDocument(t.Context(), f.a, up[0].Document); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	changing.Wait()
	close(over)
	adding.Wait()
	f.purgeAll(t)
	stored, real, counted := f.stored(t, f.a)
	if stored != real || !counted || real == "0 0" {
		t.Errorf("said to be stored: %s, counted %t; there are: %s", stored, counted, real)
	}
	if stored, _, _ := f.stored(t, f.b); stored != "0 0" {
		t.Errorf("another tenant is said to have %s", stored)
	}
}

// TestWrongCountsArePutRight: wrong counts are corrected, and a tenant that is older than the
// counts is counted when they are first needed.
func TestWrongCountsArePutRight(t *testing.T) {
	f := setUp(t, store.Options{})
	for i := range 3 {
		f.upload(t, f.a, f.collection, text(fmt.Sprint(i), fmt.Sprint(i)))
	}
	execute(t, localAdmin(t, f), `TRUNCATE tenant_counts, tenant_changes`) // as an older build left it
	if _, _, counted := f.stored(t, f.a); counted {
		t.Error("it counts as counted")
	}
	three := int64(3)
	if _, err := f.SetQuotas(t.Context(), schema.Principal{}, f.a.Tenant, &three, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("4", "4")}); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("a fourth document: %v", err)
	}
	if s, err := f.Storage(t.Context(), f.a.Tenant); err != nil || s.Documents != 3 || s.Bytes != 3 {
		t.Errorf("stored %+v, %v", s, err)
	}
	execute(t, localAdmin(t, f), `UPDATE tenant_counts SET documents = documents - 2, bytes = bytes + 7`)
	if stored, real, _ := f.stored(t, f.a); stored == real {
		t.Fatal("nothing is wrong")
	}
	if n, err := f.RecountStored(t.Context(), time.Hour, 10); err != nil || n != 0 {
		t.Errorf("%d were wrong that were counted just now, %v", n, err)
	}
	n, err := f.RecountStored(t.Context(), 0, 10)
	if stored, real, _ := f.stored(t, f.a); err != nil || n != 1 || stored != real {
		t.Errorf("%d were wrong, %v; said to be stored: %s; there are: %s", n, err, stored, real)
	}
}
