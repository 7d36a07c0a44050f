package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// TestThroughPgBouncer runs tests of the hot path through a PgBouncer, which assigns four
// connections to the sixteen of each store, each for one transaction.
func TestThroughPgBouncer(t *testing.T) {
	throughPooler = 4
	defer func() { throughPooler = 0 }()
	for name, test := range map[string]func(*testing.T){
		// Searches and questions: Place, Texts, LoadLexical, Nearest, AskRevision.
		"lexical search": TestLexicalFindsWhatWasCommitted, "deletion": TestLexicalForgetsAtOnce, "labels": TestLexicalLabels,
		"tenants of an index": TestLexicalTenantsAreApart, "nearest": TestNearestIsExact, "nearest, visible": TestNearestSeesWhatThePrincipalMaySee,
		"texts": TestReaderShowsWhatIsLiveAndVisible, "revision": TestLexicalRevisionChanges,
		"revision, concurrent": TestLexicalRevisionOfConcurrentCommits, "revision, connections": TestLexicalRevisionLeavesConnections,
		// Uploads and requests.
		"upload": TestUploadStoresBytesVersionAndMessage, "large upload": TestUploadOfLargeContent, "uploads at once": TestConcurrentUploadsNumberVersions,
		"equal requests": TestOfManyEqualRequestsOneActs, "within a request": TestWhatIsWithinARequestIsOneTransaction,
		// Writing, curation and purge.
		"curators": TestConcurrentCurators,
		"purgers":  TestPurgersShareWhatThereIs, "index of vectors": TestLargeCollectionsGetAnIndex,
		// Outbox, leadership and leases.
		"relays": TestRelaysShareTheOutbox, "election": TestOneOfManyProcessesIsElected, "leader loop": TestOnlyTheLeaderRunsRounds,
		"ledger": TestTheLedgerSettlesOnce, "first reply": TestTheFirstReplyCounts, "pace": TestCallsArePacedManyAtOnce, "lease": TestALeaseIsRenewedWhileItsCallRuns,
		"many calls": TestManyCallsHoldNoConnection,
	} {
		t.Run(name, test)
	}
}

// Each of many clients that share few connections sees its own tenant's rows, with the settings of
// its transaction, and nobody's outside of transactions.
func TestManyClientsOfAPoolerKeepApart(t *testing.T) {
	throughPooler = 3
	defer func() { throughPooler = 0 }()
	f := setUp(t, store.Options{MaxConns: 24})
	principals := []schema.Principal{f.a, f.b}
	var clients sync.WaitGroup
	for i := range 24 {
		clients.Go(func() {
			p := principals[i%2]
			for range 20 {
				err := errors.Join(
					f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
						var tenant, role, jit, mode, idle string
						if err := tx.QueryRow(ctx, `SELECT string_agg(id::text, ','), current_user::text, current_setting('jit'),
							current_setting('plan_cache_mode'), current_setting('idle_in_transaction_session_timeout') FROM tenants`).
							Scan(&tenant, &role, &jit, &mode, &idle); err != nil {
							return err
						}
						if seen, want := []string{tenant, role, jit, mode, idle},
							[]string{p.Tenant.String(), "sluice_app", "off", "force_custom_plan", "5min"}; fmt.Sprint(seen) != fmt.Sprint(want) {
							return fmt.Errorf("%v, want %v", seen, want)
						}
						return nil
					}),
					f.AskTenant(t.Context(), p.Tenant, `SELECT id::text FROM tenants`, nil, func(rows pgx.Rows) error {
						ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
						if err == nil && strings.Join(ids, ",") != p.Tenant.String() {
							err = fmt.Errorf("asked, and saw tenants %v", ids)
						}
						return err
					}))
				if err == nil {
					_, err = f.AskRevision(t.Context(), p.Tenant, f.collection)()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	if err := f.CheckPooler(t.Context()); err != nil {
		t.Error(err)
	}
	// The lock of a holder of leases is on a connection of its own, while all of the pooler's are
	// used.
	session, err := f.OpenSession(t.Context(), "somebody")
	if err != nil {
		t.Fatal(err)
	}
	connections := func() (n int) {
		if err := f.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE l.locktype = 'advisory' AND l.classid = $1::int::oid AND l.granted AND a.datname = current_database()`, store.PresenceClass).Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := connections(); n != 1 {
		t.Errorf("%d locks of one holder", n)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, func() string {
		if n := connections(); n != 0 {
			return fmt.Sprintf("%d locks of nobody", n)
		}
		return ""
	})
}

// Setups that do not work with a pooler are refused, and the error says what to do.
func TestPoolerIsNamed(t *testing.T) {
	f := setUp(t, store.Options{})
	strict := localtest.Pooler(t, f.url, 2)
	const drop = "ignore_startup_parameters = jit,plan_cache_mode,statement_timeout,idle_in_transaction_session_timeout"
	lax := localtest.Pooler(t, f.url, 1, drop)
	refused := func(what string, err error, want ...string) {
		t.Helper()
		if !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, which does not name %s", what, err, w)
			}
		}
	}
	_, err := store.Open(t.Context(), strict, store.Options{})
	refused("a pooler without the setting", err, "SLUICE_DATABASE_URL", "SLUICE_DATABASE_POOLED=true")
	checked := func(url string, o store.Options) error {
		s, err := store.Open(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.CheckPooler(t.Context())
	}
	refused("a pooler that drops settings", checked(lax, store.Options{}), "SLUICE_DATABASE_URL", "SLUICE_DATABASE_POOLED=true")
	// The first client left its statements there.
	_, err = store.Open(t.Context(), lax, store.Options{})
	refused("another client's statements", err, "SLUICE_DATABASE_URL", "SLUICE_DATABASE_POOLED=true")
	refused("no direct address", checked(strict, store.Options{Pooled: true}), "SLUICE_DATABASE_DIRECT_URL")
	refused("a direct address that is the pooler's", checked(strict, store.Options{Pooled: true, DirectURL: strict}), "SLUICE_DATABASE_DIRECT_URL", "server itself")
	refused("one that drops settings", checked(strict, store.Options{Pooled: true, DirectURL: lax}), "SLUICE_DATABASE_DIRECT_URL", "server itself")
	refused("migrations through a pooler", store.Migrate(t.Context(), localtest.Pooler(t, f.owner, 2), "", ""), "SLUICE_DATABASE_OWNER_URL", "server itself")
	if err := checked(f.url, store.Options{}); err != nil {
		t.Errorf("without a pooler: %v", err)
	}
	// An ingest-worker would have no connection for its lock.
	s, err := store.Open(t.Context(), strict, store.Options{Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.OpenSession(t.Context(), "somebody"); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a session without a direct address: %v", err)
	}
}
