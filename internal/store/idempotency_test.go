package store_test

// This file repeats requests under idempotency keys, and rolls back what is within their
// transactions.

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// once sends a request, and reports whether it acted.
func (f *fixture) once(p schema.Principal, key, route, hash string, reply *schema.Reply) (kept *schema.Reply, acted bool, err error) {
	kept, err = f.Store.Once(context.Background(), p, key, route, []byte(hash), func(context.Context) *schema.Reply {
		acted = true
		return reply
	})
	return kept, acted, err
}

func TestRepeatedRequests(t *testing.T) {
	f := setUp(t, store.Options{})
	made := &schema.Reply{Status: 201, ContentType: "application/json", Body: []byte("{}")}
	for _, p := range []schema.Principal{f.a, f.b} { // each has its own keys
		if kept, acted, err := f.once(p, "k", "POST /x", "hash", made); kept != nil || !acted || err != nil {
			t.Fatal(kept, acted, err)
		}
	}
	kept, acted, err := f.once(f.a, "k", "POST /x", "hash", &schema.Reply{Status: 500})
	if err != nil || acted || kept == nil || kept.Status != 201 || kept.ContentType != "application/json" || string(kept.Body) != "{}" {
		t.Errorf("%+v, %v, %v", kept, acted, err)
	}
	for _, other := range [][2]string{{"POST /y", "hash"}, {"POST /x", "else"}} {
		if _, acted, err := f.once(f.a, "k", other[0], other[1], made); acted || !errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrInProgress) {
			t.Errorf("another request: %v, %v", acted, err)
		}
	}
	// Without a reply that is stored, the request may be sent again.
	for range 2 {
		if kept, acted, err := f.once(f.a, "k2", "POST /x", "hash", nil); kept != nil || !acted || err != nil {
			t.Errorf("undone: %v, %v, %v", kept, acted, err)
		}
	}
	execAs(t, f, f.a, `UPDATE idempotency SET created_at = now() - interval '25 hours' WHERE key = 'k'`)
	if kept, acted, err := f.once(f.a, "k", "POST /y", "else", made); kept != nil || !acted || err != nil {
		t.Errorf("an expired key: %v, %v, %v", kept, acted, err)
	}
	for _, key := range []string{"", "\x00", string(make([]byte, 256))} {
		if _, acted, err := f.once(f.a, key, "POST /x", "hash", made); acted || !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("key %q: %v, %v", key, acted, err)
		}
	}
}

// TestAClaimOfAnOlderBuildIsLeftAlone: such a claim has no reply while its request runs, and never
// gets one when that is killed.
func TestAClaimOfAnOlderBuildIsLeftAlone(t *testing.T) {
	f := setUp(t, store.Options{})
	execAs(t, f, f.a, `INSERT INTO idempotency (tenant_id, key, route, request_hash) VALUES ($1, 'k', 'POST /x', 'hash')`, f.a.Tenant)
	made := &schema.Reply{Status: 201}
	for _, age := range []string{"0 s", "10 minutes"} {
		execAs(t, f, f.a, `UPDATE idempotency SET created_at = now() - $1::interval`, age)
		if _, acted, err := f.once(f.a, "k", "POST /x", "hash", made); acted || !errors.Is(err, schema.ErrInProgress) {
			t.Errorf("%s old: %v, %v", age, acted, err)
		}
	}
	execAs(t, f, f.a, `UPDATE idempotency SET created_at = now() - interval '16 minutes'`)
	if _, acted, err := f.once(f.a, "k", "POST /x", "hash", made); !acted || err != nil {
		t.Errorf("of a request that was killed: %v, %v", acted, err)
	}
}

func TestOfManyEqualRequestsOneActs(t *testing.T) {
	f := setUp(t, store.Options{})
	var wg, others sync.WaitGroup
	var acts [8]bool
	others.Add(len(acts) - 1)
	for i := range acts {
		wg.Go(func() {
			_, err := f.Store.Once(context.Background(), f.a, "race", "POST /x", []byte("hash"), func(context.Context) *schema.Reply {
				acts[i] = true
				others.Wait() // all of them start while this one runs, and none waits for it
				return &schema.Reply{Status: 201}
			})
			if !acts[i] {
				others.Done()
			}
			if acts[i] != (err == nil) || err != nil && !errors.Is(err, schema.ErrInProgress) {
				t.Error(acts[i], err)
			}
		})
	}
	wg.Wait()
}

// TestWhatIsWithinARequestIsOneTransaction: each nested transaction has its own rights and is
// rolled back alone; the rest is committed with the reply, or not at all.
func TestWhatIsWithinARequestIsOneTransaction(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 1}) // there is no other connection to use
	no := errors.New("no")
	act := func(ctx context.Context) {
		if _, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "mine"}); err != nil {
			t.Error(err)
		}
		if _, err := f.CreateCollection(ctx, f.a, schema.NewCollection{Name: "mine"}); !errors.Is(err, schema.ErrConflict) {
			t.Errorf("the same again: %v", err)
		}
		if _, err := f.CreateTenant(ctx, f.a, schema.NewTenant{Name: "third"}, sealed("admin")); err != nil {
			t.Error(err)
		}
		err := f.AsTenant(ctx, f.b.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := f.CreateCollection(ctx, f.b, schema.NewCollection{Name: "theirs"}); err != nil {
				t.Error(err)
			}
			return no
		})
		if !errors.Is(err, no) {
			t.Error(err)
		}
		err = f.AsTenant(ctx, f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			var names []string
			if err := tx.QueryRow(ctx, `SELECT array_agg(name ORDER BY name) FROM collections`).Scan(&names); err != nil {
				return err
			}
			if len(names) != 2 || names[0] != "mine" || names[1] != "papers" {
				t.Errorf("the tenant sees %q", names)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, reply := range []*schema.Reply{nil, {Status: 201}} {
		if _, err := f.Store.Once(t.Context(), f.a, "k", "POST /x", []byte("hash"), func(ctx context.Context) *schema.Reply {
			act(ctx)
			return reply
		}); err != nil {
			t.Fatal(err)
		}
		_, err := f.TenantNamed(t.Context(), "third")
		mine := one[int](t, f, f.a, `SELECT count(*) FROM collections WHERE name = 'mine'`)
		theirs := one[int](t, f, f.b, `SELECT count(*) FROM collections WHERE name = 'theirs'`)
		if want := reply != nil; (err == nil) != want || (mine == 1) != want || theirs != 0 {
			t.Errorf("with reply %v: tenant %v, %d and %d collections", reply, err, mine, theirs)
		}
	}
}

// TestAnExpiredKeyClaimedDuringAPurgeStays: the purge waits for the request that claims it.
func TestAnExpiredKeyClaimedDuringAPurgeStays(t *testing.T) {
	f := setUp(t, store.Options{})
	if _, _, err := f.once(f.a, "k", "POST /x", "hash", &schema.Reply{Status: 200}); err != nil {
		t.Fatal(err)
	}
	execAs(t, f, f.a, `UPDATE idempotency SET created_at = now() - interval '25 hours'`)
	purger := open(t, f.url, store.Options{Name: "purger"})
	purged := make(chan error, 1)
	if _, err := f.Store.Once(t.Context(), f.a, "k", "POST /x", []byte("hash"), func(context.Context) *schema.Reply {
		go func() {
			_, err := purger.PurgeOnce(t.Context(), 10)
			purged <- err
		}()
		f.awaitLock(t, "purger")
		return &schema.Reply{Status: 201}
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-purged; err != nil {
		t.Fatal(err)
	}
	if kept, acted, err := f.once(f.a, "k", "POST /x", "hash", nil); acted || err != nil || kept == nil || kept.Status != 201 {
		t.Errorf("the repeat acted: %t, %+v, %v", acted, kept, err)
	}
}
