package store_test

// This file takes the database down while every function that accesses it is used.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// The errors of a database that restarts, fails over, is cut off or has no free connection mean
// schema.ErrUnavailable for all functions; errors caused by a statement or its data do not.
func TestErrorsOfAnOutage(t *testing.T) {
	f := setUp(t, store.Options{})
	code := func(code string) error {
		return &pgconn.PgError{Severity: "ERROR", Code: code, Message: "said the server"}
	}
	outage := []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, pgconn.ErrConnClosed,
		&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
		&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)},
		&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)},
	}
	for _, c := range []string{
		"08000", "08001", "08003", "08004", "08006", "08007", "08P01", // connection exceptions
		"25006",          // read-only
		"25P03", "25P04", // idle in a transaction, or in one, for too long
		"53000", "53200", "53300", "53400", // resources, connections among them
		"57014", "57P01", "57P02", "57P03", "57P04", "57P05", // timeout, shut down, crashed, not up yet, gone
		"58000", "58030", // the server's own input and output
	} {
		outage = append(outage, code(c))
	}
	other := map[error]error{
		code("23505"): schema.ErrConflict, code("23503"): schema.ErrNotFound, code("23514"): schema.ErrInvalid, code("22021"): schema.ErrInvalid,
		code("42501"): schema.ErrForbidden, code("40001"): schema.ErrConflict, context.Canceled: context.Canceled,
		context.DeadlineExceeded: context.DeadlineExceeded,
	}
	operations := map[string]func(err error) error{
		"AsTenant": func(err error) error {
			return f.AsTenant(t.Context(), f.a.Tenant, func(context.Context, pgx.Tx) error { return fmt.Errorf("in it: %w", err) })
		},
		"AsSystem": func(err error) error {
			return f.AsSystem(t.Context(), func(context.Context, pgx.Tx) error { return fmt.Errorf("in it: %w", err) })
		},
		"AsAuth": func(err error) error {
			return f.AsAuth(t.Context(), func(context.Context, pgx.Tx) error { return fmt.Errorf("in it: %w", err) })
		},
	}
	for name, through := range operations {
		for _, err := range outage {
			if got := through(err); !errors.Is(got, schema.ErrUnavailable) || !errors.Is(got, err) {
				t.Errorf("%s: %v became %v", name, err, got)
			}
		}
		for err, want := range other {
			if got := through(err); !errors.Is(got, want) || errors.Is(got, schema.ErrUnavailable) {
				t.Errorf("%s: %v became %v", name, err, got)
			}
		}
	}
}

// outage is a server of the test's own, and loops that call every access function.
type outage struct {
	*fixture
	server *local.Postgres
	dir    string

	mu       sync.Mutex
	change   *sync.Cond
	works    map[string]int // how often each function succeeded
	refuses  map[string]int // how often it returned ErrUnavailable
	uploaded []string
}

// ownServer starts a server with a migrated database in dir.
func ownServer(t *testing.T, dir string) *local.Postgres {
	t.Helper()
	return ownServerWith(t, dir, map[string]string{"synchronous_commit": "on"}) // what is committed survives a crash
}

func ownServerWith(t *testing.T, dir string, settings map[string]string) *local.Postgres {
	t.Helper()
	pg, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: dir, Throwaway: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pg.Kill()
		_ = pg.Stop(context.Background())
	})
	if err := store.Migrate(t.Context(), pg.OwnerURL(local.Database), pg.URL(), ""); err != nil {
		t.Fatal(err)
	}
	return pg
}

// use calls a function until ctx ends.
func (o *outage) use(ctx context.Context, t *testing.T, name string, door func(ctx context.Context) error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := door(ctx)
		if ctx.Err() != nil {
			return
		}
		o.mu.Lock()
		switch {
		case err == nil:
			o.works[name]++
		case errors.Is(err, schema.ErrUnavailable):
			o.refuses[name]++
		default:
			t.Errorf("%s: %v (%[2]T)", name, err)
		}
		o.change.Broadcast()
		o.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// await waits until counts of each of the functions has risen by times.
func (o *outage) await(counts map[string]int, times int, operations ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := map[string]int{}
	for _, d := range operations {
		before[d] = counts[d]
	}
	for slices.ContainsFunc(operations, func(d string) bool { return counts[d] < before[d]+times }) {
		o.change.Wait()
	}
}

func (o *outage) operations(t *testing.T) map[string]func(ctx context.Context) error {
	o.write(t, o.a, o.collection, &written{name: "first", body: "heron one / heron two"})
	upload := func(ctx context.Context, name string) (schema.Uploaded, error) {
		out, err := o.Upload(ctx, o.a, o.collection, []schema.Upload{text(name, "a heron named "+name)})
		if err != nil {
			return schema.Uploaded{}, err
		}
		o.mu.Lock()
		o.uploaded = append(o.uploaded, name)
		o.mu.Unlock()
		return out[0], nil
	}
	return map[string]func(ctx context.Context) error{
		"ping": func(ctx context.Context) error { return o.Ping(ctx) },
		"key": func(ctx context.Context) error {
			_, _, err := o.KeyByHash(ctx, []byte("nobody's"))
			if errors.Is(err, schema.ErrNotFound) {
				return nil
			}
			return err
		},
		"read": func(ctx context.Context) error {
			_, _, err := o.Documents(ctx, o.a, o.collection, schema.DocumentQuery{})
			return err
		},
		"usage": func(ctx context.Context) error {
			_, err := o.Storage(ctx, o.a.Tenant)
			return err
		},
		"search": func(ctx context.Context) error {
			r, err := newIndex(o.fixture).SearchText(ctx, o.a.Tenant, o.collection, "heron",
				lexical.TermQuery{Unit: schema.UnitPassage, K: 10, Settings: lexical.Defaults})
			if err == nil && len(r.Hits) < 2 {
				err = fmt.Errorf("%d hits", len(r.Hits))
			}
			return err
		},
		"upload": func(ctx context.Context) error {
			_, err := upload(ctx, fmt.Sprintf("upload-%d", serial.Add(1)))
			return err
		},
		"write": func(ctx context.Context) error {
			up, err := upload(ctx, fmt.Sprintf("write-%d", serial.Add(1)))
			if err != nil {
				return err
			}
			w := &written{version: up.Version, attempt: 1, body: "otter / badger"}
			if err := o.AsTenant(ctx, o.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE versions SET state = 'processing' WHERE id = $1`, up.Version)
				return err
			}); err != nil {
				return err
			}
			out, err := o.WriteVersions(ctx, o.a.Tenant, o.collection, []batch.Document{w.document()})
			if err == nil && len(out) > 0 {
				err = fmt.Errorf("outcomes %+v", out)
			}
			return err
		},
		"outbox": func(ctx context.Context) error {
			_, err := o.relay(ctx, "a relay")
			return err
		},
		"session": func(ctx context.Context) error {
			session, err := o.OpenSession(ctx, "somebody")
			if err != nil {
				return err
			}
			defer session.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it is given up either way
			o.mu.Lock()
			o.works["session"]++
			o.change.Broadcast()
			o.mu.Unlock()
			return session.Hold(ctx)
		},
	}
}

// writers are the functions that a read-only database refuses; "ping" reports that.
var writers = []string{"upload", "write", "outbox", "ping"}

// Backends are terminated, and the server crashes, restarts and is read-only for a while: each call
// succeeds or returns ErrUnavailable, and all succeed afterwards.
func TestManyOutagesWhileEveryDoorIsUsed(t *testing.T) {
	o := &outage{works: map[string]int{}, refuses: map[string]int{}, dir: localtest.Dir(t)}
	o.change = sync.NewCond(&o.mu)
	o.server = ownServer(t, o.dir)
	o.fixture = &fixture{url: o.server.URL()}
	o.All = open(t, o.url, store.Options{})
	o.a, o.collection = o.tenant(t, "tenant-a")

	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()
	operations := o.operations(t)
	var calls, readers []string // those that end by themselves
	for name, door := range operations {
		if name != "session" {
			calls = append(calls, name)
		}
		if name != "session" && !slices.Contains(writers, name) {
			readers = append(readers, name)
		}
		for range 2 {
			loops.Go(func() { o.use(ctx, t, name, door) })
		}
	}
	administer := func(sql string) { execute(t, o.server.AdminURL("postgres"), sql) }
	o.await(o.works, 2, calls...)
	// after waits until all succeed, and sessions are open again.
	after := func(fault func()) {
		o.mu.Lock()
		open := o.works["session"]
		o.mu.Unlock()
		fault()
		o.await(o.works, 2, calls...)
		o.mu.Lock()
		defer o.mu.Unlock()
		for o.works["session"] == open {
			o.change.Wait()
		}
	}
	restart := func() {
		<-o.server.Done()
		if err := o.server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		after(func() {
			administer(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'sluice'`)
		})
	}
	for range 2 {
		after(func() {
			o.server.Kill()
			restart()
		})
		after(func() {
			signalServer(t, o.dir, syscall.SIGQUIT) // an immediate shutdown
			restart()
		})
	}
	administer(`ALTER SYSTEM SET default_transaction_read_only = on`)
	administer(`SELECT pg_reload_conf()`)
	o.await(o.refuses, 2, writers...)
	o.await(o.works, 5, readers...) // reads go on
	administer(`ALTER SYSTEM RESET default_transaction_read_only`)
	administer(`SELECT pg_reload_conf()`)
	o.await(o.works, 2, calls...)
	cancel()
	loops.Wait()

	// What was acknowledged exists.
	for _, name := range o.uploaded {
		n := one[int](t, o.fixture, o.a, `SELECT count(*) FROM versions v JOIN documents d ON d.id = v.document_id WHERE d.external_id = $1`, name)
		if n == 0 {
			t.Errorf("%s was uploaded and is not there", name)
		}
	}
	t.Logf("worked %v, unavailable %v", o.works, o.refuses)
}

// signalServer sends a signal to the server in a directory.
func signalServer(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, "cluster", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(file), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// A failover: the server to which the pool is connected becomes read-only, and the next one in the
// URL accepts writes. The pool leaves the first one by itself, and so do sessions.
func TestManyConnectionsLeaveAReadOnlyServer(t *testing.T) {
	dir, copied := localtest.Dir(t), localtest.Dir(t)
	first := ownServer(t, dir)
	// The second is a copy of the first, with its passwords, as a standby is.
	f := &fixture{url: first.URL()}
	f.All = open(t, f.url, store.Options{})
	f.a, f.collection = f.tenant(t, "tenant-a")
	f.Close()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyTree(t, dir, copied)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := ownServer(t, copied)

	a, err := pgx.ParseConfig(first.URL())
	if err != nil {
		t.Fatal(err)
	}
	b, err := pgx.ParseConfig(second.URL())
	if err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("%s:%d", a.Host, a.Port)
	f.url = strings.Replace(first.URL(), host, fmt.Sprintf("%s,%s:%d", host, b.Host, b.Port), 1)
	f.All = open(t, f.url, store.Options{})
	port := func() (port int) {
		return one[int](t, f, f.a, `SELECT current_setting('port')::int`)
	}
	if got := port(); got != int(a.Port) {
		t.Fatalf("connected to port %d, want the first, %d", got, a.Port)
	}
	session, err := f.OpenSession(t.Context(), "somebody")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(context.Background()) //nolint:errcheck // a test's
	// All connections of the pool lead to the first server.
	var wg, all sync.WaitGroup
	all.Add(12)
	for range 12 {
		wg.Go(func() {
			if err := f.AsTenant(context.Background(), f.a.Tenant, func(context.Context, pgx.Tx) error {
				all.Done()
				all.Wait()
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	execute(t, first.AdminURL("postgres"), `ALTER SYSTEM SET default_transaction_read_only = on`)
	execute(t, first.AdminURL("postgres"), `SELECT pg_reload_conf()`)
	if err := session.Hold(t.Context()); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("the session on the first server said %v", err)
	}
	// One write notices the failover; later calls do not.
	f.upload(t, f.a, f.collection, text("after", "the failover"))
	for range 20 {
		if got := port(); got != int(b.Port) {
			t.Fatalf("connected to port %d, want the second, %d", got, b.Port)
		}
	}
	if err := f.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// copyTree copies the files of a stopped server, with their owners.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir():
			err = os.MkdirAll(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, data, info.Mode().Perm())
			}
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && err == nil && name != "." {
			err = os.Lchown(target, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
