// Package localtest provides tests with the real servers that Sluice needs: PostgreSQL with
// pgvector, NATS with JetStream, Temporal. Servers are started once per test binary and are never
// faked. If one is missing the tests fail and say what to do.
//
//	func TestMain(m *testing.M) {
//		localtest.Main(m, localtest.Need{Postgres: true, Migrate: migrations.Up})
//	}
//
//	func TestSomething(t *testing.T) {
//		pool := connect(t, localtest.Database(t))
//	}
package localtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// Need lists what a package's tests need.
type Need struct {
	// Postgres is required for Database and Postgres.
	Postgres bool
	// Temporal is required for Temporal.
	Temporal bool
	// Migrate migrates the database that Database copies to the schema that the tests expect. It is
	// called once, with the URLs of the database's owner and of the logins of programs and of
	// vectors. If it is nil the databases are empty except for the extension vector.
	Migrate func(ctx context.Context, owner, program, vectors string) error
	// Leaks are options for the leak check, for goroutines of libraries that cannot be stopped.
	Leaks []goleak.Option
}

// machine has the servers that Main started for this test binary.
type machine struct {
	dir      string
	postgres *local.Postgres
	temporal *local.Temporal
	template string // the database that Database copies
	migrated bool   // it has the logins of programs
}

var running *machine

// Main starts what is needed, runs the tests, checks for leaked goroutines, stops everything, and
// exits.
func Main(m *testing.M, need Need) {
	// A signal must end the tests through here, so that servers and files are removed.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m, need)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "localtest:", err)
		if errors.Is(err, local.ErrMissing) {
			fmt.Fprintln(os.Stderr, "localtest: run `make setup` first")
		}
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M, need Need) (code int, err error) {
	sweep()
	dir, lock, err := newDir()
	if err != nil {
		return 1, err
	}
	running = &machine{dir: dir}
	defer func() {
		err = errors.Join(err, running.stop(), os.RemoveAll(dir), lock.Close())
	}()
	if err := running.start(ctx, need); err != nil {
		return 1, err
	}
	// A stream that is created while its NATS server shuts down keeps its store open. All other
	// goroutines of a server are checked.
	const nats = "github.com/nats-io/nats-server/v2/server"
	leaks := append([]goleak.Option{
		goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction(nats + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(nats + "/ats.Register.func1"),
	}, need.Leaks...)
	finished := make(chan int, 1)
	go func() { finished <- m.Run() }()
	select {
	case code = <-finished:
	case <-ctx.Done():
		return 1, context.Cause(ctx)
	}
	if code == 0 {
		if err := leaked(leaks); err != nil {
			return 1, fmt.Errorf("the tests left goroutines behind: %w", err)
		}
	}
	return code, nil
}

// leaked returns an error if the tests leaked goroutines. Libraries end some of theirs after the
// function that started them has returned, for example Temporal those of cached workflows. On a
// busy machine that takes longer than the half second for which goleak waits.
func leaked(options []goleak.Option) error {
	var err error
	for range 100 {
		if err = goleak.Find(options...); err == nil {
			return nil
		}
	}
	return err
}

func (r *machine) start(ctx context.Context, need Need) error {
	ctx, cancel := waittest.Start(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var postgresErr, temporalErr error
	if need.Postgres {
		wg.Go(func() { postgresErr = r.startPostgres(ctx, need) })
	}
	if need.Temporal {
		wg.Go(func() { temporalErr = r.startTemporal(ctx) })
	}
	wg.Wait()
	return errors.Join(postgresErr, temporalErr)
}

func (r *machine) startPostgres(ctx context.Context, need Need) error {
	pg, err := local.NewPostgres(local.PostgresOptions{Dir: filepath.Join(r.dir, "postgres"), Throwaway: true})
	if err != nil {
		return err
	}
	if err := pg.Start(ctx); err != nil {
		return err
	}
	r.postgres, r.template = pg, local.Database
	if need.Migrate == nil {
		return nil
	}
	if err := need.Migrate(ctx, pg.OwnerURL(local.Database), pg.ProgramURL(local.Database), pg.VectorURL(local.Database)); err != nil {
		return fmt.Errorf("migrating the template database: %w", err)
	}
	r.migrated = true
	return nil
}

func (r *machine) startTemporal(ctx context.Context) error {
	temporal, err := local.NewTemporal(local.TemporalOptions{Dir: filepath.Join(r.dir, "temporal")})
	if err != nil {
		return err
	}
	if err := temporal.Start(ctx); err != nil {
		return err
	}
	r.temporal = temporal
	return nil
}

// stop kills the servers, because their files are removed anyway.
func (r *machine) stop() error {
	if r.postgres != nil {
		r.postgres.Kill()
	}
	if r.temporal != nil {
		r.temporal.Kill()
	}
	var all []error
	if r.postgres != nil {
		all = append(all, r.postgres.Stop(context.Background()))
	}
	if r.temporal != nil {
		all = append(all, r.temporal.Stop(context.Background()))
	}
	return errors.Join(all...)
}

const dirPattern = "sluice-test-*"

// memoryFree is how many bytes the in-memory file system must have free to be used.
const memoryFree = 4 << 30

// baseDir returns the in-memory file system if it has enough space: a new database is hundreds of
// small files, for which disks are slow.
func baseDir() string {
	const memory = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) >= memoryFree {
		return memory
	}
	return os.TempDir()
}

// newDir makes a directory that the user of PostgreSQL can enter, and locks it while we live.
func newDir() (string, *os.File, error) {
	dir, err := os.MkdirTemp(baseDir(), dirPattern)
	if err != nil {
		return "", nil, err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return dir, lock, os.Chmod(dir, 0o755)
}

// sweep removes the directories of killed test binaries. It leaves those that it cannot remove, for
// example of other users.
func sweep() {
	dirs, err := filepath.Glob(filepath.Join(baseDir(), dirPattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
