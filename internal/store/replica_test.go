package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// replicated is a fixture whose searches can read from a hot standby.
type replicated struct {
	*fixture
	primary, standby *local.Postgres
	replica          *store.Replica
	index            *search.Index
}

// setUpReplica returns one whose replica may lag by most.
func setUpReplica(t *testing.T, most time.Duration) *replicated {
	t.Helper()
	settings := map[string]string{"wal_level": "replica", "max_wal_senders": "4", "synchronous_commit": "on",
		"max_standby_streaming_delay": "20ms", "wal_retrieve_retry_interval": "200ms"}
	f := &replicated{fixture: &fixture{}, primary: ownServerWith(t, localtest.Dir(t), settings)}
	standby, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: localtest.Dir(t), Throwaway: true, Settings: settings, StandbyOf: f.primary})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		standby.Kill()
		_ = standby.Stop(context.Background())
	})
	f.standby, f.url = standby, f.primary.URL()
	f.owner = f.primary.OwnerURL(local.Database)
	f.All = openPlain(t, f.url, store.Options{})
	f.a, f.collection = f.tenant(t, "tenant-a")
	if f.replica, err = store.OpenReplica(t.Context(), f.Store, standby.URL(), most, store.Options{Lane: store.Lane(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.replica.Close)
	watch := f.replica.Watch()
	if err := watch.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := watch.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f.SearchStore = f.OnReplica(f.replica)
	f.index = newIndex(f.fixture)
	return f
}

// awaitUsed waits until searches read from the replica, or do not.
func (f *replicated) awaitUsed(t *testing.T, want bool) {
	t.Helper()
	waittest.Until(t, func() string {
		if used := f.replica.Used(); used != want {
			return fmt.Sprintf("the replica is used: %t", used)
		}
		return ""
	})
}

// searches counts a server's scans of tables that only searches read.
func searches(t *testing.T, server *local.Postgres) (n int) {
	t.Helper()
	conn := connect(t, server.AdminURL(local.Database))
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	if err := conn.QueryRow(t.Context(), `SELECT coalesce(sum(seq_scan + idx_scan), 0) FROM pg_stat_user_tables WHERE relname = 'lexical_pages'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitSearches searches with a new index, which has nothing cached, until the replica has
// answered.
func (f *replicated) awaitSearches(t *testing.T, text string, want ...*written) {
	t.Helper()
	before := searches(t, f.standby)
	waittest.Until(t, func() string {
		expect(t, newIndex(f.fixture), f.a, f.collection, text, want...)
		if n := searches(t, f.standby); n <= before {
			return fmt.Sprintf("%d scans of the index at the replica", n)
		}
		return ""
	})
}

// texts returns the external ids of the documents that Texts returns.
func (f *replicated) texts(t *testing.T, docs ...*written) []string {
	t.Helper()
	place, err := f.CollectionState(t.Context(), f.a, f.collection)
	if err != nil {
		t.Fatal(err)
	}
	var refs []lexical.Ref
	for _, d := range docs {
		refs = append(refs, lexical.Ref{Version: d.version, Section: 0, Passage: 0})
	}
	found, err := f.Texts(t.Context(), f.a, f.collection, retrieval.At{Generation: place.Generation, Revision: place.Revision}, refs)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, ref := range refs {
		if text, ok := found[ref]; ok {
			out = append(out, text.ExternalID)
		}
	}
	return out
}

// Searches read from the replica. The next search finds what was committed, and not what was
// deleted, even while replay is paused; a replica that lags too far or is gone is not used, and is
// used again when it is back.
func TestManySearchesReadFromAReplica(t *testing.T) {
	f := setUpReplica(t, 3*time.Second)
	first := &written{name: "first", body: "heron one/otter"}
	f.write(t, f.a, f.collection, first)
	f.awaitUsed(t, true)
	f.awaitSearches(t, "heron", first)

	execute(t, f.standby.AdminURL(local.Database), `SELECT pg_wal_replay_pause()`)
	second := &written{name: "second", body: "heron two"}
	f.write(t, f.a, f.collection, second)
	expect(t, f.index, f.a, f.collection, "heron", first, second)
	expect(t, newIndex(f.fixture), f.a, f.collection, "heron", first, second)
	if got := f.texts(t, first, second); fmt.Sprint(got) != "[first second]" {
		t.Errorf("texts of %v", got)
	}
	if err := f.DeleteDocument(t.Context(), f.a, first.id); err != nil {
		t.Fatal(err)
	}
	expect(t, f.index, f.a, f.collection, "heron", second)
	if got := f.texts(t, first, second); fmt.Sprint(got) != "[second]" {
		t.Errorf("texts of %v after the first was deleted", got)
	}
	f.awaitUsed(t, false) // it is too far behind
	execute(t, f.standby.AdminURL(local.Database), `SELECT pg_wal_replay_resume()`)
	f.awaitUsed(t, true)
	f.awaitSearches(t, "heron", second)

	// It is stopped during reads, and started again.
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	var read atomic.Int64
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				r, err := newIndex(f.fixture).SearchText(ctx, f.a.Tenant, f.collection, "heron", lexical.TermQuery{Unit: schema.UnitPassage, K: 10, Settings: lexical.Defaults})
				if ctx.Err() == nil && (err != nil || len(r.Hits) != 1) {
					t.Errorf("%d hits, %v", len(r.Hits), err)
				}
				read.Add(1)
			}
		})
	}
	more := func() {
		before := read.Load()
		waittest.Until(t, func() string {
			if n := read.Load() - before; n < 20 {
				return fmt.Sprintf("%d searches", n)
			}
			return ""
		})
	}
	for _, end := range []func(){f.standby.Kill, func() { _ = f.standby.Stop(t.Context()) }} {
		more()
		end()
		<-f.standby.Done()
		f.awaitUsed(t, false)
		more()
		if err := f.standby.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.awaitUsed(t, true)
	}
	cancel()
	readers.Wait()
	f.awaitSearches(t, "heron", second)
}

// While its replica is up to date, the database reads no index for searches.
func TestTheDatabaseIsAskedForRevisionsAlone(t *testing.T) {
	f := setUpReplica(t, time.Hour)
	doc := &written{name: "a", body: "heron"}
	f.write(t, f.a, f.collection, doc)
	f.awaitUsed(t, true)
	want := revision(t, f.fixture, f.a.Tenant, f.collection)
	waittest.Until(t, func() string {
		conn := connect(t, f.standby.AdminURL(local.Database))
		defer conn.Close(context.Background()) //nolint:errcheck // a test's
		var has int64
		if err := conn.QueryRow(t.Context(), `SELECT coalesce(sum(revision), 0)::bigint FROM lexical_revisions`).Scan(&has); err != nil || has != want {
			return fmt.Sprintf("the replica has revision %d, want %d: %v", has, want, err)
		}
		return ""
	})
	// The writers' connections are closed, so their scans are counted.
	reopened := openPlain(t, f.url, store.Options{})
	f.Close()
	atPrimary, atReplica := searches(t, f.primary), searches(t, f.standby)
	replica, err := store.OpenReplica(t.Context(), reopened.Store, f.standby.URL(), time.Hour, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	watch := replica.Watch()
	if err := watch.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.All, f.replica = reopened, replica
	f.awaitUsed(t, true)
	f.SearchStore = f.OnReplica(replica)
	const times = 20
	for range times {
		expect(t, newIndex(f.fixture), f.a, f.collection, "heron", doc)
		if got := f.texts(t, doc); fmt.Sprint(got) != "[a]" {
			t.Errorf("texts of %v", got)
		}
	}
	if err := watch.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	replica.Close()
	reopened.Close()
	waittest.Until(t, func() string {
		if n := searches(t, f.standby) - atReplica; n < times {
			return fmt.Sprintf("%d scans of the index at the replica", n)
		}
		return ""
	})
	if n := searches(t, f.primary) - atPrimary; n != 0 {
		t.Errorf("%d scans of the index at the database", n)
	}
}

// readTwice reads in a way that the replica never finishes by itself. It returns the error of that
// read, and checks that the database then answered.
func (f *replicated) readTwice(t *testing.T, begun chan<- struct{}) error {
	t.Helper()
	var cut error
	err := f.replica.ReadTenant(t.Context(), f.a.Tenant, f.collection, func(ctx context.Context, tx pgx.Tx) error {
		var standby bool
		if err := tx.QueryRow(ctx, `SELECT pg_is_in_recovery() FROM (SELECT count(*) FROM sections) x`).Scan(&standby); err != nil || !standby {
			return err
		}
		close(begun)
		_, cut = tx.Exec(ctx, `SELECT pg_sleep(100000)`)
		return cut
	})
	if err != nil {
		t.Error(err)
	}
	return cut
}

// The database answers reads that recovery cancels on the replica.
func TestRepeatOfAReadThatRecoveryCancels(t *testing.T) {
	f := setUpReplica(t, time.Hour)
	f.awaitUsed(t, true)
	waittest.Until(t, func() string { // it may not have the collection yet
		var seen bool
		if err := f.replica.ReadTenant(t.Context(), f.a.Tenant, f.collection, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&seen)
		}); err != nil || !seen {
			return fmt.Sprintf("read from the replica: %t, %v", seen, err)
		}
		return ""
	})
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- f.readTwice(t, begun) }()
	waittest.Receive(t, begun, "a read of the replica")
	execute(t, f.owner, `ALTER TABLE sections SET (fillfactor = 90)`)
	var conflict *pgconn.PgError
	if err := waittest.Receive(t, ended, "the end of the read"); !errors.As(err, &conflict) || conflict.Code != "40001" {
		t.Errorf("the replica ended the read with %v, want 40001", err)
	}
	f.awaitUsed(t, true)
}

// A read in progress is cancelled when the replica is found to lag too far.
func TestRepeatOfAReadOfAReplicaThatFallsBehind(t *testing.T) {
	f := setUpReplica(t, time.Second)
	f.awaitUsed(t, true)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- f.readTwice(t, begun) }()
	waittest.Receive(t, begun, "a read of the replica")
	execute(t, f.standby.AdminURL(local.Database), `SELECT pg_wal_replay_pause()`)
	f.write(t, f.a, f.collection, &written{name: "a", body: "heron"})
	if err := waittest.Receive(t, ended, "the end of the read"); !errors.Is(err, context.Canceled) {
		t.Errorf("the read ended with %v, want its cancellation", err)
	}
	f.awaitUsed(t, false)
}

// The next search filters by a document's new metadata, although the replica still has the old.
func TestReadsOfAReplicaSeeNewMetadata(t *testing.T) {
	f := setUpReplica(t, time.Hour)
	doc := &written{name: "a", body: "heron"}
	f.write(t, f.a, f.collection, doc)
	f.awaitUsed(t, true)
	f.awaitSearches(t, "heron", doc)
	execute(t, f.standby.AdminURL(local.Database), `SELECT pg_wal_replay_pause()`)
	if _, err := f.UpdateDocument(t.Context(), f.a, doc.id, schema.DocumentChange{Metadata: &schema.Metadata{"year": "2024"}}); err != nil {
		t.Fatal(err)
	}
	var got uuid.UUID
	err := f.replica.ReadTenant(t.Context(), f.a.Tenant, f.collection, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT version_id FROM version_metadata WHERE key = 'year' AND int_value >= 2024`).Scan(&got)
	})
	if err != nil || got != doc.version {
		t.Errorf("the filter leaves %v, %v", got, err)
	}
}
