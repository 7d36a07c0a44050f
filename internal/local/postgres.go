// This file runs the PostgreSQL server as a service: a child process on a cluster in a directory.

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/memory"
)

// Names of the database and its roles. Owner owns the database, and may create roles and databases
// but is no superuser. Program is the login of programs and owns nothing. Vectors owns only the
// partitions of vectors. Migrations make the latter two.
const (
	Database = "sluice"
	Owner    = "sluice"
	Program  = "sluice_program"
	Vectors  = "sluice_vector_builder"

	superuser = "postgres"
)

// PostgresOptions are the options of a PostgreSQL server.
type PostgresOptions struct {
	// Dir holds the cluster, its log and its passwords; it is created if missing.
	Dir string
	// Port to listen on; 0: a free one, which stays the same for the lifetime of the Postgres
	// value.
	Port int
	// Log gets notable events; nil discards them.
	Log *slog.Logger
	// Throwaway trades safety of the data in a power failure for speed. It is for tests.
	Throwaway bool
	// Buffers is shared_buffers in bytes. 0: a quarter of the memory, at least 128 MB and at most 8
	// GB; 128 MB with Throwaway.
	Buffers int64
	// Settings are further server settings, which override the defaults.
	Settings map[string]string
	// StandbyOf, if not nil, is a running server that this one follows as a hot standby, which
	// takes no writes. Its cluster is a copy of that server's. The settings wal_level and
	// max_wal_senders of both must allow this.
	StandbyOf *Postgres
}

// Postgres is a PostgreSQL server with pgvector. It has the database Database, owned by Owner, with
// the extension vector.
type Postgres struct {
	*lifecycle.Func

	opts PostgresOptions

	mu        sync.Mutex
	port      int
	passwords map[string]string
	child     *child
}

// NewPostgres checks the options; Start starts the server.
func NewPostgres(opts PostgresOptions) (*Postgres, error) {
	if err := checkOptions("postgres", &opts.Dir, opts.Port, &opts.Log); err != nil {
		return nil, err
	}
	p := &Postgres{opts: opts, port: opts.Port}
	p.Func = lifecycle.NewFunc("postgres", p.start)
	return p, nil
}

// StartPostgres makes and starts a server.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	p, err := NewPostgres(opts)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// URL returns the URL of Database with the login Program. It is valid after Start and stays the
// same across restarts.
func (p *Postgres) URL() string { return p.ProgramURL(Database) }

// AdminURL returns the URL of a database with the login of the superuser. It is for set-up and
// tests: row-level security does not apply to a superuser.
func (p *Postgres) AdminURL(database string) string { return p.url(superuser, database) }

// OwnerURL returns the URL of a database with the login Owner.
func (p *Postgres) OwnerURL(database string) string { return p.url(Owner, database) }

// ProgramURL returns the URL of a database with the login Program, which a migration must have
// made.
func (p *Postgres) ProgramURL(database string) string { return p.url(Program, database) }

// VectorURL returns the URL of a database with the login Vectors, which a migration must have made.
func (p *Postgres) VectorURL(database string) string { return p.url(Vectors, database) }

func (p *Postgres) url(user, database string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, p.passwords[user]),
		Host:     net.JoinHostPort(Host, strconv.Itoa(p.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Kill ends the server like a crash. It can be started again.
func (p *Postgres) Kill() {
	p.mu.Lock()
	c := p.child
	p.mu.Unlock()
	if c != nil {
		c.kill()
	}
}

func (p *Postgres) cluster() string { return filepath.Join(p.opts.Dir, "cluster") }

func (p *Postgres) start(ctx context.Context) (_ lifecycle.Run, err error) {
	// Others may enter, so that the server's user can reach the cluster. The files in it have their
	// own permissions.
	if err := os.MkdirAll(p.opts.Dir, 0o755); err != nil {
		return lifecycle.Run{}, err
	}
	lock, err := lockDir(p.opts.Dir)
	if err != nil {
		return lifecycle.Run{}, err
	}
	defer func() {
		if err != nil {
			_ = lock.release()
		}
	}()
	user, err := serverAccount()
	if err != nil {
		return lifecycle.Run{}, err
	}
	if err := user.canEnter(p.opts.Dir); err != nil {
		return lifecycle.Run{}, err
	}
	install, err := p.prepareCluster(ctx, user)
	if err != nil {
		return lifecycle.Run{}, err
	}
	c, err := p.startServer(ctx, install, user)
	if err != nil {
		return lifecycle.Run{}, err
	}
	if p.opts.StandbyOf == nil {
		if err := p.prepareDatabase(ctx); err != nil {
			c.kill()
			return lifecycle.Run{}, err
		}
	}
	p.mu.Lock()
	p.child = c
	p.mu.Unlock()
	p.opts.Log.Info("postgres is ready", "dir", p.opts.Dir, "port", p.port, "version", install.Major, "pgvector", install.Vector)
	return childRun(c, lock), nil
}

// childRun returns the lifecycle run of a child. It releases the directory's lock when the child
// ends.
func childRun(c *child, lock dirLock) lifecycle.Run {
	done := make(chan struct{})
	asked := make(chan struct{})
	var failure error
	go func() {
		defer close(done)
		<-c.done
		_ = lock.release()
		select {
		case <-asked:
		default:
			failure = c.failure()
		}
	}()
	return lifecycle.Run{
		Done: done,
		Err:  func() error { return failure },
		Stop: func(ctx context.Context) error {
			close(asked)
			err := c.end(ctx)
			<-done
			return err
		},
	}
}

// serverSettings returns the settings as command-line arguments, in a stable order.
func (p *Postgres) serverSettings(port int) []string {
	s := map[string]string{
		"listen_addresses":        Host,
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "",
		"max_connections":         "200",
		"shared_buffers":          strconv.FormatInt(p.buffers()>>10, 10) + "kB",
		"maintenance_work_mem":    "128MB",
		"max_wal_size":            "2GB",
		"wal_compression":         "on",
		"random_page_cost":        "1.1",
		"jit":                     "off", // compiling costs more than our queries take
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_min_messages":        "warning",
		"log_line_prefix":         "%m [%p] ",
		"cluster_name":            "sluice",
	}
	if p.opts.Throwaway {
		maps.Copy(s, map[string]string{
			"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
			// In files next to the data, so that a killed server leaves nothing elsewhere.
			"dynamic_shared_memory_type": "mmap",
		})
	}
	maps.Copy(s, p.opts.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		args = append(args, "-c", name+"="+s[name])
	}
	return args
}

// buffers returns shared_buffers in bytes.
func (p *Postgres) buffers() int64 {
	const least, most = 128 << 20, 8 << 30
	switch {
	case p.opts.Buffers > 0:
		return p.opts.Buffers
	case p.opts.Throwaway:
		return least
	}
	return memory.Share(4, least, most)
}

// startServer starts the server and waits until it accepts connections.
func (p *Postgres) startServer(ctx context.Context, install PostgresInstallation, user *account) (*child, error) {
	pidFile := filepath.Join(p.cluster(), "postmaster.pid")
	if err := endOrphan(ctx, pidFile, p.cluster(), syscall.SIGINT, syscall.SIGQUIT); err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	if p.child != nil { // it ran before
		if err := awaitPort(ctx, p.port); err != nil {
			return nil, err
		}
	}
	for {
		port, err := choosePort(p.port)
		if err != nil {
			return nil, err
		}
		c, err := command{
			path: filepath.Join(install.Bin, "postgres"),
			args: append([]string{"-D", p.cluster()}, p.serverSettings(port)...),
			user: user,
			log:  filepath.Join(p.opts.Dir, "server.log"),
			// Fast shutdown, immediate shutdown, and a fast one when we die, which leaves nothing
			// to recover.
			stop: syscall.SIGINT, cut: syscall.SIGQUIT, death: syscall.SIGINT,
		}.start()
		if err != nil {
			return nil, err
		}
		if err = p.awaitServer(ctx, c, port); err == nil {
			p.mu.Lock()
			p.port = port
			p.mu.Unlock()
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		// Two failures are transient: another process took the free port first, and processes of a
		// killed server are still running.
		again := p.port == 0 && (taken(port) || c.portTaken()) || strings.Contains(c.tail(), "is still in use")
		if !again {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// awaitServer waits until the server is ready. On an error the server has ended.
func (p *Postgres) awaitServer(ctx context.Context, c *child, port int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if serverReady(filepath.Join(p.cluster(), "postmaster.pid"), c.process.Pid) {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.done:
			return c.failure()
		case <-ctx.Done():
			c.kill()
			return fmt.Errorf("waiting for postgres on port %d: %w\n%s", port, context.Cause(ctx), c.tail())
		}
	}
}

// serverReady reads the server's state from the eighth line of its pid file.
func serverReady(pidFile string, pid int) bool {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > 7 && strings.TrimSpace(lines[0]) == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}

// prepareDatabase creates the role, the extension and the database, unless they exist.
func (p *Postgres) prepareDatabase(ctx context.Context) error {
	// With the extension in template1, every new database has it.
	for _, database := range []string{"template1", superuser, Database} {
		if err := p.prepareOne(ctx, database); err != nil {
			return fmt.Errorf("preparing database %s: %w", database, err)
		}
	}
	return nil
}

func (p *Postgres) prepareOne(ctx context.Context, database string) (err error) {
	conn, err := pgx.Connect(ctx, p.AdminURL(database))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if database != superuser {
		// Upgrade the extension after an upgrade of pgvector.
		_, err = conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS vector; ALTER EXTENSION vector UPDATE")
		return err
	}
	var role, db bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), EXISTS (SELECT FROM pg_database WHERE datname = $2)`,
		Owner, Database).Scan(&role, &db); err != nil {
		return err
	}
	if !role {
		// The password is hexadecimal, so it needs no quoting. CREATE ROLE takes no parameters.
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN CREATEDB CREATEROLE PASSWORD '%s'", Owner, p.passwords[Owner])); err != nil {
			return err
		}
	}
	if !db {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s OWNER %s", Database, Owner)); err != nil {
			return err
		}
	}
	return nil
}
