package store_test

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func key(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

func (f *fixture) cached(t testing.TB, c ledger.ReplyCache, p schema.Principal, k string) string {
	t.Helper()
	reply, found, err := c.Load(t.Context(), p.Tenant, key(k))
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return ""
	}
	return reply.Text
}

func TestCachedRepliesAreTheTenants(t *testing.T) {
	f := setUp(t, store.Options{})
	c := ledger.NewReplyCache(f.Store, time.Hour, 10)
	save := func(p schema.Principal, k, text string, versions ...uuid.UUID) {
		t.Helper()
		if err := c.Save(t.Context(), p.Tenant, key(k), versions, wire.LLMReply{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.cached(t, c, f.a, "k"); got != "" {
		t.Errorf("got %q of nothing", got)
	}
	save(f.a, "k", "of a")
	if a, b := f.cached(t, c, f.a, "k"), f.cached(t, c, f.b, "k"); a != "of a" || b != "" {
		t.Errorf("a has %q, b %q", a, b)
	}
	save(f.b, "k", "of b")
	save(f.a, "k", "of a, later")
	if a, b := f.cached(t, c, f.a, "k"), f.cached(t, c, f.b, "k"); a != "of a, later" || b != "of b" {
		t.Errorf("a has %q, b %q", a, b)
	}
	// Another tenant's version does not count.
	foreign := f.upload(t, f.b, f.foreign, text("b.txt", "of b"))
	save(f.a, "foreign", "x", foreign.Version)
	if got := f.cached(t, c, f.a, "foreign"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	f := setUp(t, store.Options{})
	c := ledger.NewReplyCache(f.Store, time.Hour, 3)
	for i, k := range []string{"1", "2", "3", "4", "5"} {
		if err := c.Save(t.Context(), f.a.Tenant, key(k), nil, wire.LLMReply{Text: k}); err != nil {
			t.Fatal(err)
		}
		execAs(t, f, f.a, `UPDATE llm_cache SET created_at = now() - make_interval(mins => $2) WHERE key = $1`, keyBytes(k), 50-10*i)
	}
	for k, want := range map[string]string{"1": "", "2": "", "3": "3", "4": "4", "5": "5"} {
		if got := f.cached(t, c, f.a, k); got != want {
			t.Errorf("%s: got %q", k, got)
		}
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_cache`); n != 3 {
		t.Errorf("%d replies are kept", n)
	}
	execAs(t, f, f.a, `UPDATE llm_cache SET created_at = now() - interval '61 minutes' WHERE key = $1`, keyBytes("5"))
	if got := f.cached(t, c, f.a, "5"); got != "" {
		t.Errorf("got %q, which is too old", got)
	}
}

func keyBytes(s string) []byte { k := key(s); return k[:] }

// Purging a version's text also removes what was made from it, including what is made meanwhile.
func TestPurgeRemovesCachedReplies(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	c := ledger.NewReplyCache(f.Store, time.Hour, 10)
	gone, stays := f.upload(t, f.a, f.collection, text("gone.txt", "one")), f.upload(t, f.a, f.collection, text("stays.txt", "two"))
	for _, u := range []schema.Uploaded{gone, stays} {
		f.goLive(t, f.a, u.Document, u.Version)
	}
	for k, versions := range map[string][]uuid.UUID{"both": {stays.Version, gone.Version, gone.Version}, "one": {stays.Version}, "none": nil} {
		if err := c.Save(t.Context(), f.a.Tenant, key(k), versions, wire.LLMReply{Text: k}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.DeleteDocument(t.Context(), f.a, gone.Document); err != nil {
		t.Fatal(err)
	}
	for n := 1; n > 0; {
		var err error
		if n, err = f.PurgeOnce(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
	for k, want := range map[string]string{"both": "", "one": "one", "none": "none"} {
		if got := f.cached(t, c, f.a, k); got != want {
			t.Errorf("%s: got %q", k, got)
		}
	}
	// A call that took longer than the version existed.
	if err := c.Save(t.Context(), f.a.Tenant, key("late"), []uuid.UUID{gone.Version}, wire.LLMReply{Text: "late"}); err != nil {
		t.Fatal(err)
	}
	if got := f.cached(t, c, f.a, "late"); got != "" {
		t.Errorf("got %q", got)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_cache_versions`); n != 1 {
		t.Errorf("%d references are kept", n)
	}
}

// A reply that is cached while its version is purged is removed, or never stored.
func TestPurgeDuringCaching(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	c := ledger.NewReplyCache(f.Store, time.Hour, 10)
	u := f.upload(t, f.a, f.collection, text("gone.txt", "one"))
	f.goLive(t, f.a, u.Document, u.Version)
	if err := f.DeleteDocument(t.Context(), f.a, u.Document); err != nil {
		t.Fatal(err)
	}
	// The version is locked as by caching when the purge comes.
	purged := make(chan error, 1)
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT id FROM versions WHERE id = $1 FOR KEY SHARE`, u.Version); err != nil {
			return err
		}
		go func() {
			_, err := f.PurgeOnce(context.Background(), 100)
			purged <- err
		}()
		if err := c.Save(ctx, f.a.Tenant, key("k"), []uuid.UUID{u.Version}, wire.LLMReply{Text: "k"}); err != nil {
			return err
		}
		return nil
	})
	if err := <-purged; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t) // it skipped the locked version, and finds it now
	if got := f.cached(t, c, f.a, "k"); got != "" {
		t.Errorf("got %q", got)
	}
}
