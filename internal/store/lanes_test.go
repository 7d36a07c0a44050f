package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

// entryPoints are the functions through which callers access the database.
var entryPoints = map[string]func(context.Context, *fixture, *store.Store, func(context.Context, pgx.Tx) error) error{
	"AsTenant": func(ctx context.Context, f *fixture, s *store.Store, fn func(context.Context, pgx.Tx) error) error {
		return s.AsTenant(ctx, f.a.Tenant, fn)
	},
	"ReadTenant": func(ctx context.Context, f *fixture, s *store.Store, fn func(context.Context, pgx.Tx) error) error {
		return s.ReadTenant(ctx, f.a.Tenant, fn)
	},
	"AsSystem": func(ctx context.Context, _ *fixture, s *store.Store, fn func(context.Context, pgx.Tx) error) error {
		return s.AsSystem(ctx, fn)
	},
	"AsAuth": func(ctx context.Context, _ *fixture, s *store.Store, fn func(context.Context, pgx.Tx) error) error {
		return s.AsAuth(ctx, fn)
	},
}

func sleep(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_sleep(3600)`)
	return err
}

// TestStatementsEndWithTheirLane: through each function a statement that never ends is stopped when
// its lane ends, with schema.ErrUnavailable.
func TestStatementsEndWithTheirLane(t *testing.T) {
	f := setUp(t, store.Options{})
	quick := f.In(store.Lane(100 * time.Millisecond))
	for name, door := range entryPoints {
		if err := door(t.Context(), f, quick, sleep); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
		for want, s := range map[string]*store.Store{"15s": f.Store, "2min": f.In(store.Batch), "1min": f.In(store.Curation)} {
			err := door(t.Context(), f, s, func(ctx context.Context, tx pgx.Tx) error {
				var got string
				if err := tx.QueryRow(ctx, `SHOW statement_timeout`).Scan(&got); err != nil || got != want {
					t.Errorf("%s: statements may run for %q, %v, want %s", name, got, err, want)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := quick.AskTenant(t.Context(), f.a.Tenant, `SELECT pg_sleep(3600)`, nil, noRows); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a statement that is a transaction of its own: %v, want unavailable", err)
	}
	// Statements outside of these functions have the limit of the store.
	outside := open(t, f.url, store.Options{Lane: store.Lane(100 * time.Millisecond)})
	if err := outside.Outside(t.Context(), `SELECT pg_sleep(3600)`); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a statement outside the doors: %v, want unavailable", err)
	}
}

// TestWaitsForLocksEndWithTheirLane: the lane includes waiting for another transaction.
func TestWaitsForLocksEndWithTheirLane(t *testing.T) {
	f := setUp(t, store.Options{})
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM collections WHERE id = $1 FOR UPDATE`, f.collection); err != nil {
			return err
		}
		description := "new"
		_, err := stores.Of(f.In(store.Lane(100*time.Millisecond))).UpdateCollection(ctx, f.a, f.collection, schema.CollectionChange{Description: &description})
		if !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("%v, want unavailable", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestClusteringEndsWithItsLane: the lane is Curation in a store for background work, and the
// store's own where that is shorter.
func TestClusteringEndsWithItsLane(t *testing.T) {
	f := setUp(t, store.Options{})
	if got := f.In(store.Batch).Curating().Lane(); got != store.Curation {
		t.Errorf("clustering of a worker has the lane %v, want %v", time.Duration(got), time.Duration(store.Curation))
	}
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE collections IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		_, _, err := stores.Of(f.In(store.Lane(100*time.Millisecond))).ClusterChanged(t.Context(), f.a.Tenant, f.collection)
		if !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("%v, want unavailable", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCallersThatLeaveAreNotAFault: a caller that cancels gets context.Canceled, not
// schema.ErrUnavailable.
func TestCallersThatLeaveAreNotAFault(t *testing.T) {
	f := setUp(t, store.Options{})
	for name, door := range entryPoints {
		ctx, cancel := context.WithCancel(t.Context())
		err := door(ctx, f, f.Store, func(ctx context.Context, tx pgx.Tx) error {
			cancel()
			return sleep(ctx, tx)
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("%s: %v, want canceled alone", name, err)
		}
	}
}

func noRows(rows pgx.Rows) error {
	rows.Close()
	return rows.Err()
}
