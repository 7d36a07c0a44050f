package local_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		os.Exit(helper(dir))
	}
	localtest.Main(m, localtest.Need{Postgres: true, Temporal: true, Migrate: func(ctx context.Context, owner, _, _ string) error {
		conn, err := pgx.Connect(ctx, owner)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE TABLE migrated (v vector(3))")
		return errors.Join(err, conn.Close(ctx))
	}})
}

// execute runs a statement on a new connection.
func execute(t *testing.T, url, statement string) error {
	t.Helper()
	ctx := waittest.Context(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresKeepsTheContract(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		pg, err := local.NewPostgres(local.PostgresOptions{Dir: localtest.Dir(t), Throwaway: true})
		must(t, err)
		return pg
	})
}

func TestNATSKeepsTheContract(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		n, err := local.NewNATS(local.NATSOptions{Dir: localtest.Dir(t)})
		must(t, err)
		return n
	})
}

func TestTemporalKeepsTheContract(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		server, err := local.NewTemporal(local.TemporalOptions{Dir: localtest.Dir(t)})
		must(t, err)
		return server
	})
}

func TestDatabasesAreMigratedAndSeparate(t *testing.T) {
	t.Parallel()
	a, b := localtest.OwnerURL(t, localtest.Database(t)), localtest.OwnerURL(t, localtest.Database(t))
	must(t, execute(t, a, "INSERT INTO migrated VALUES ('[1,2,3]')"))
	must(t, execute(t, b, "DO $$ BEGIN IF EXISTS (SELECT FROM migrated) THEN RAISE 'not separate'; END IF; END $$"))
	// The owner is no superuser, to whom row-level security would not apply, but can make roles for
	// migrations.
	must(t, execute(t, a, "DO $$ BEGIN IF (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) THEN RAISE 'too mighty'; END IF; END $$"))
	must(t, execute(t, a, "CREATE ROLE made_by_owner NOLOGIN NOSUPERUSER NOBYPASSRLS; GRANT made_by_owner TO CURRENT_USER; SET ROLE made_by_owner"))
}

func TestPostgresKeepsDataOverRestartsAndCrashes(t *testing.T) {
	t.Parallel()
	pg, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: localtest.Dir(t)})
	must(t, err)
	url := pg.OwnerURL(local.Database)
	must(t, execute(t, url, "CREATE TABLE kept AS SELECT 1"))
	must(t, pg.Stop(waittest.Context(t)))
	must(t, pg.Start(waittest.Context(t)))
	if after := pg.OwnerURL(local.Database); after != url {
		t.Errorf("the URL changed over a restart: %s, then %s", url, after)
	}
	must(t, execute(t, url, "INSERT INTO kept VALUES (2)"))

	pg.Kill()
	<-pg.Done()
	if pg.Err() == nil {
		t.Error("Err after a crash: got nil")
	}
	must(t, pg.Start(waittest.Context(t)))
	must(t, execute(t, url, "DO $$ BEGIN IF (SELECT count(*) FROM kept) <> 2 THEN RAISE 'lost'; END IF; END $$"))
	must(t, pg.Stop(waittest.Context(t)))
}

// TestPostgresComesBackToAPortThatIsTakenForAMoment: processes of a killed server may still have
// the port for a moment.
func TestPostgresComesBackToAPortThatIsTakenForAMoment(t *testing.T) {
	t.Parallel()
	pg, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: localtest.Dir(t)})
	must(t, err)
	u, err := url.Parse(pg.OwnerURL(local.Database))
	must(t, err)
	must(t, pg.Stop(waittest.Context(t)))
	taken, err := net.Listen("tcp", u.Host)
	must(t, err)
	defer taken.Close() //nolint:errcheck // it is closed twice
	started := make(chan error, 1)
	go func() { started <- pg.Start(waittest.Context(t)) }()
	select {
	case err := <-started:
		t.Fatalf("it did not wait for its port: %v", err)
	case <-time.After(200 * time.Millisecond): //house:clock how long the port is taken
	}
	must(t, taken.Close())
	must(t, waittest.Receive(t, started, "Postgres"))
	must(t, pg.Stop(waittest.Context(t)))
}

func TestDirectoryHasOneServer(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	first, err := local.StartNATS(waittest.Context(t), local.NATSOptions{Dir: dir})
	must(t, err)
	if _, err := local.StartNATS(waittest.Context(t), local.NATSOptions{Dir: dir}); !errors.Is(err, local.ErrInUse) {
		t.Errorf("second server on one directory: got %v, want ErrInUse", err)
	}
	must(t, first.Stop(waittest.Context(t)))
}

func TestPostgresSaysWhichDirectoryItsUserCannotEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		// Otherwise PostgreSQL runs as our own user, which can enter.
		return
	}
	closed := filepath.Join(localtest.Dir(t), "closed")
	must(t, os.Mkdir(closed, 0o700))
	_, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: filepath.Join(closed, "data")})
	if !errors.Is(err, os.ErrPermission) || !contains(err, closed+" (mode 0700)") {
		t.Errorf("got %v, want an error that names %s", err, closed)
	}
}

func TestPortThatIsTakenIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", net.JoinHostPort(local.Host, "0"))
	must(t, err)
	defer func() { must(t, taken.Close()) }()
	port := taken.Addr().(*net.TCPAddr).Port
	for name, start := range map[string]func() error{
		"postgres": func() error {
			_, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: localtest.Dir(t), Port: port, Throwaway: true})
			return err
		},
		"nats": func() error {
			_, err := local.StartNATS(waittest.Context(t), local.NATSOptions{Dir: localtest.Dir(t), Port: port})
			return err
		},
		"temporal": func() error {
			_, err := local.StartTemporal(waittest.Context(t), local.TemporalOptions{Dir: localtest.Dir(t), Port: port})
			return err
		},
	} {
		if err := start(); !contains(err, name) || !contains(err, strconv.Itoa(port)) {
			t.Errorf("%s: got %v, want an error that names it and port %d", name, err, port)
		}
	}
}

func TestPasswordsAreForUsAlone(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	pg, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: dir, Throwaway: true})
	must(t, err)
	must(t, pg.Stop(waittest.Context(t)))
	files, err := filepath.Glob(filepath.Join(dir, "*.password"))
	must(t, err)
	if len(files) != 4 { // superuser, owner, programs, index builder
		t.Errorf("password files: got %v, want four", files)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %o, want 600", file, info.Mode().Perm())
		}
	}
}

func TestNATSKeepsStreamsOverRestartsAndAsksForItsToken(t *testing.T) {
	t.Parallel()
	n := localtest.NATS(t)
	ctx := waittest.Context(t)
	nc, err := nats.Connect(n.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	must(t, err)
	_, err = js.Publish(ctx, "s", []byte("kept"))
	must(t, err)

	must(t, n.Stop(ctx))
	must(t, n.Start(ctx))
	must(t, nc.ForceReconnect())
	stream, err := js.Stream(ctx, "S")
	must(t, err)
	if got := stream.CachedInfo().State.Msgs; got != 1 {
		t.Errorf("messages after a restart: got %d, want 1", got)
	}

	stranger, err := nats.Connect(withoutToken(n.URL()))
	if err == nil {
		stranger.Close()
		t.Error("a client without the token was let in")
	}
}

func TestTemporalRunsWorkflowsInANewNamespace(t *testing.T) {
	t.Parallel()
	space := localtest.Temporal(t)
	ctx := waittest.Context(t)
	c, err := client.DialContext(ctx, client.Options{HostPort: space.Address, Namespace: space.Namespace})
	must(t, err)
	defer c.Close()
	double := func(_ workflow.Context, n int) (int, error) { return 2 * n, nil }
	w := worker.New(c, "queue", worker.Options{})
	w.RegisterWorkflowWithOptions(double, workflow.RegisterOptions{Name: "double"})
	must(t, w.Start())
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "queue"}, "double", 21)
	must(t, err)
	var got int
	must(t, run.Get(ctx, &got))
	if got != 42 {
		t.Errorf("workflow: got %d, want 42", got)
	}
}
