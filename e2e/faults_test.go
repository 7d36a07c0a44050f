package e2e

// This file makes every part of the system unavailable for a while, one after another, during
// ingestion and questions. Nothing may fail, be lost, be stuck or be stored twice. A request in the
// meantime is answered, or refused because the system is unavailable.

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// testFaults causes every fault once, for seconds. In soak_test.go they last for minutes.
func testFaults(t *testing.T, p programs) {
	articles, questions := squadArticles(t)
	if articles == nil {
		return // squadArticles has reported it
	}
	b := newBed(t, p, impatient...)
	l := newLoad(t, b.server, articles[:105], questions[:35])
	b.all(t, l, 3*time.Second)
	l.finish(t)
	b.nothingLeft(t, l)
}

// bed is a system whose servers can be made unavailable.
type bed struct {
	*server
	postgres *local.Postgres
	database *link
	nats     *link
	temporal *link
}

func newBed(t *testing.T, p programs, settings ...string) *bed {
	t.Helper()
	pg, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: localtest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Stop(context.Background()) }) // after a kill, its processes could write for a moment longer
	config, err := pgx.ParseConfig(pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	nats, temporal := localtest.NATS(t), localtest.Temporal(t)
	b := &bed{postgres: pg}
	b.database = newLink(t, fmt.Sprintf("%s:%d", config.Host, config.Port))
	b.nats = newLink(t, hostOf(t, nats.URL()))
	b.temporal = newLink(t, temporal.Address)
	b.server = p.up(t, localtest.Dir(t), append([]string{
		"SLUICE_DATABASE_URL=" + b.database.through(pg.URL()), "SLUICE_DATABASE_OWNER_URL=" + b.database.through(pg.OwnerURL(local.Database)),
		"SLUICE_DATABASE_VECTOR_URL=" + b.database.through(pg.VectorURL(local.Database)), "SLUICE_NATS_URL=" + b.nats.through(nats.URL()),
		"SLUICE_TEMPORAL_ADDRESS=" + b.temporal.address(), "SLUICE_TEMPORAL_NAMESPACE=" + temporal.Namespace,
	}, settings...)...)
	return b
}

// fault makes a part unavailable; the function that take returns ends the fault.
type fault struct {
	name string
	take func(t *testing.T, b *bed) (back func())
}

var faults = []fault{
	{"Postgres is read-only", func(t *testing.T, b *bed) func() {
		b.administer(t, `ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
		return func() { b.administer(t, `ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`) }
	}},
	{"Postgres crashes", func(t *testing.T, b *bed) func() {
		b.postgres.Kill()
		<-b.postgres.Done()
		return func() {
			if err := b.postgres.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"Postgres drops every connection", func(t *testing.T, b *bed) func() {
		b.database.drop()
		b.administer(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'sluice' AND pid <> pg_backend_pid()`)
		return b.database.drop
	}},
	{"NATS is away", func(_ *testing.T, b *bed) func() {
		b.nats.refuse(true)
		return func() { b.nats.refuse(false) }
	}},
	{"Temporal is away", func(_ *testing.T, b *bed) func() {
		b.temporal.refuse(true)
		return func() { b.temporal.refuse(false) }
	}},
	{"the model server hangs", func(t *testing.T, b *bed) func() {
		model := b.child(t, "gpu-segmenter")
		freeze(t, model)
		return func() { thaw(t, model) }
	}},
	{"the connections to NATS are dead", func(_ *testing.T, b *bed) func() {
		b.nats.silence(true)
		return func() { b.nats.silence(false) }
	}},
}

// all causes every fault once, each during one part of the load.
func (b *bed) all(t *testing.T, l *load, hold time.Duration) {
	t.Helper()
	for i, f := range faults {
		l.part(t, i, len(faults))
		started := time.Now()
		back := f.take(t, b)
		l.pause(hold)
		b.tellsNobody(t, f.name)
		back()
		l.serves(t)
		took := time.Since(started) //house:clock it is told, not waited for
		t.Logf("%s for %s: served again after %s more; %s", f.name, hold.Round(time.Second), (took - hold).Round(10*time.Millisecond), l.said())
	}
}

// tellsNobody sends requests without a key and with a wrong one. No reply may name the address of a
// part, or a user of the database.
func (b *bed) tellsNobody(t *testing.T, fault string) {
	t.Helper()
	database, err := pgx.ParseConfig(b.postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"127.0.0.1", "sqlstate", "postgres", database.User, fmt.Sprintf(":%d", database.Port)}
	for _, link := range []*link{b.database, b.nats, b.temporal} {
		secrets = append(secrets, link.address()[strings.LastIndexByte(link.address(), ':'):])
	}
	for _, key := range []string{"", "slk_wrong"} {
		s := b.withKey(key)
		for _, path := range []string{"/healthz", "/readyz", "/v1/collections", "/v1/jobs", "/v1/tenants", "/nowhere"} {
			r := s.call(t, http.MethodGet, path, nil)
			said := strings.ToLower(fmt.Sprint(string(r.body), r.header))
			for _, secret := range secrets {
				if strings.Contains(said, strings.ToLower(secret)) {
					t.Errorf("%s: GET %s tells %q: %d %s", fault, path, secret, r.status, said)
				}
			}
		}
	}
}

func (b *bed) administer(t *testing.T, statements ...string) {
	t.Helper()
	db := connect(t, b.postgres.AdminURL(local.Database))
	defer func() { _ = db.Close(t.Context()) }()
	for _, s := range statements {
		if _, err := db.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// nothingLeft checks that all documents are stored once and completely, and that no work is left.
func (b *bed) nothingLeft(t *testing.T, l *load) {
	t.Helper()
	nothingLeft(t, b.postgres.AdminURL(local.Database), l)
}

func nothingLeft(t *testing.T, databaseURL string, l *load) {
	t.Helper()
	checkStored(t, databaseURL)
	db := connect(t, databaseURL)
	defer func() { _ = db.Close(t.Context()) }()
	waittest.Until(t, func() string {
		var leases, artifacts, outbox int
		if err := db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM leases), (SELECT count(*) FROM artifacts), (SELECT count(*) FROM outbox)`).
			Scan(&leases, &artifacts, &outbox); err != nil {
			t.Fatal(err)
		}
		if leases+artifacts+outbox > 0 {
			return fmt.Sprintf("%d leases, %d artifacts and %d messages are left", leases, artifacts, outbox)
		}
		return ""
	})
	var versions, documents, jobs, asked int
	if err := db.QueryRow(t.Context(), `
		WITH here AS (SELECT id FROM collections WHERE name = $1)
		SELECT (SELECT count(*) FROM versions WHERE collection_id IN (SELECT id FROM here)),
		       (SELECT count(*) FROM documents WHERE collection_id IN (SELECT id FROM here)),
		       (SELECT count(*) FROM questions WHERE async), (SELECT count(DISTINCT question) FROM questions WHERE async)`, crowded).
		Scan(&versions, &documents, &jobs, &asked); err != nil {
		t.Fatal(err)
	}
	if versions != len(l.articles) || documents != len(l.articles) || jobs != len(l.questions) || asked != len(l.questions) {
		t.Errorf("%d documents with %d versions and %d jobs of %d questions, want %d and %d", documents, versions, jobs, asked,
			len(l.articles), len(l.questions))
	}
}
