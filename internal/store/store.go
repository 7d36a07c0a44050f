// Package store is what all packages that keep data in Postgres have in common. Each package below
// it keeps one kind of data.
//
// All access goes through one of three functions, each of which runs a transaction in one role:
// AsTenant (bound to one tenant by row-level security), AsSystem (outbox, leases and version states
// of all tenants) and AsAuth (reads API keys). None of the roles can bypass row-level security, and
// a query outside of them sees nothing. This package translates driver errors to the sentinel
// errors of package schema.
package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxvector "github.com/pgvector/pgvector-go/pgx"

	"github.com/sluice-rag/sluice/internal/tcp"
	"github.com/sluice-rag/sluice/schema"
)

// Options of a Store. The zero value is usable.
type Options struct {
	// Name appears as application_name in pg_stat_activity; "sluice" by default.
	Name string
	// MaxConns bounds the pool; 16 by default. pool_max_conns in the URL is used when this is 0.
	// Ping uses one more connection.
	MaxConns int32
	// Connected, if set, is called with the process id of each new connection's backend, which is a
	// process of the database's machine.
	Connected func(backend uint32)
	// KeepSuperseded is how long purge leaves a superseded version's text to queries that still use
	// it; 10 minutes by default, negative is none.
	KeepSuperseded time.Duration
	// OwnVectorsAbove is the number of live passages above which a collection's vectors get a
	// partition with an HNSW index; 20,000 by default. Below it, comparing all of them is as fast,
	// and exact.
	OwnVectorsAbove int
	// ShardVectors is the largest number of vectors in one HNSW index; 500,000 by default. A
	// collection with more has several.
	ShardVectors int
	// VectorURL logs in as a role that owns the partitions of vectors, and nothing else. Without it
	// large collections get no index, and searches stay exact.
	VectorURL string
	// IndexBuilds bounds the vector indexes that all processes together build at once in the
	// database; 1 by default.
	IndexBuilds int
	// Pooled says that URL leads to a pooler that assigns a connection for one transaction at a
	// time, such as PgBouncer with pool_mode=transaction.
	Pooled bool
	// DirectURL leads to the server itself where Pooled is true. OpenSession needs it.
	DirectURL string
	// Objects stores bytes outside of Postgres; it may be nil.
	Objects Objects
	// NewInObjects says that new bytes are stored in Objects.
	NewInObjects bool
	// Lane bounds the time of a statement; Interactive by default. Store.In sets another one for a
	// single call.
	Lane Lane
	// Unanswered is how long a connection may wait for the server without receiving anything until
	// it counts as dead; half a minute more than the longest lane by default.
	Unanswered time.Duration

	standby bool // any of several servers in URL will do
}

// Store is a pool of connections to one database. It is safe for concurrent use. The caller must
// Close it.
type Store struct {
	*core
	lane        Lane
	independent *Store // see Independent
}

// core is shared by a store and its copies in other lanes.
type core struct {
	pool *pgxpool.Pool
	// probe is a separate connection for Ping, since those of pool may all be busy.
	probe   *pgxpool.Pool
	options Options
	vectors vectorTables
	// searching is how many connections read a revision while the search for which it is read runs.
	searching    atomic.Int32
	maxSearching int32

	written   atomic.Int64 // versions written since statistics were checked
	grown     sizeCheck
	onOutbox  atomic.Pointer[func()]    // called after commits to the outbox; see OnOutbox
	lastReset atomic.Pointer[time.Time] // when the connections were last closed; a whole Time, so that setting the wall clock has no effect
}

const (
	defaultMaxConns        = 16
	independentConns       = 2
	defaultKeepSuperseded  = 10 * time.Minute
	defaultOwnVectorsAbove = 20_000
	defaultShardVectors    = 500_000
	pingTimeout            = 10 * time.Second
	// The server ends statements that take longer than their lane.
	unansweredTimeout = time.Duration(Batch) + 30*time.Second
)

// Open connects to the database at url (postgres://...) and checks that it answers and has a
// schema; CheckSchema checks whether the schema fits this build.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := newStore(ctx, url, o)
	if err != nil {
		return nil, err
	}
	if err := s.pool.Ping(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open the database at %s: %w", address(s.pool.Config().ConnConfig), Translate(explainPooler(err, databaseSetting, advicePooled)))
	}
	return s, nil
}

// newStore returns a store that opens its connections on demand.
func newStore(ctx context.Context, url string, o Options) (*Store, error) {
	config, err := poolConfig(url, o)
	if err != nil {
		return nil, err
	}
	if o.Objects != nil { // some of the connections are Independent's
		config.MaxConns = max(config.MaxConns-independentConns, 1)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", Translate(err))
	}
	if err := otelpgx.RecordStats(pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("register pool metrics: %w", err)
	}
	one := config.Copy()
	one.MaxConns, one.MinConns, one.MinIdleConns = 1, 0, 0
	probe, err := pgxpool.NewWithConfig(ctx, one)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the database: %w", Translate(err))
	}
	if o.KeepSuperseded == 0 {
		o.KeepSuperseded = defaultKeepSuperseded
	}
	if o.OwnVectorsAbove <= 0 {
		o.OwnVectorsAbove = defaultOwnVectorsAbove
	}
	if o.ShardVectors <= 0 {
		o.ShardVectors = defaultShardVectors
	}
	if o.IndexBuilds <= 0 {
		o.IndexBuilds = 1
	}
	s := &Store{core: &core{
		pool: pool, probe: probe, options: o, maxSearching: max(config.MaxConns/4, 1),
	}, lane: o.lane()}
	s.independent = s
	if o.Objects != nil {
		config := config.Copy()
		config.MaxConns = independentConns
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("open the database: %w", Translate(err))
		}
		s.independent = &Store{core: &core{pool: pool, probe: probe, options: o, maxSearching: 1}, lane: o.lane()}
		s.independent.independent = s.independent
	}
	return s, nil
}

// Independent returns a store of the same database with a few connections of its own: its
// transactions commit independently of a transaction that the context is in (Once), and never wait
// for a connection that such a transaction holds. Without Options.Objects it returns s.
func (s *Store) Independent() *Store { return s.independent }

// Options returns the options with which the store was opened, with defaults filled in.
func (s *Store) Options() Options { return s.options }

// MaxConns returns the largest number of connections in the pool.
func (s *Store) MaxConns() int32 { return s.pool.Config().MaxConns }

// Close waits for running transactions and closes all connections.
func (s *Store) Close() {
	if s.independent != nil && s.independent != s {
		s.independent.pool.Close()
	}
	s.pool.Close()
	s.probe.Close()
}

// Ping returns an error unless the database answers now and accepts writes. It never waits for a
// connection of the pool, so a busy process is still ready.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.repeat(ctx, func() error { return s.ping(ctx) }); err != nil {
		return fmt.Errorf("ping the database: %w", err)
	}
	return nil
}

// lane returns the configured lane, or the default.
func (o Options) lane() Lane {
	if o.Lane <= 0 {
		return Interactive
	}
	return o.Lane
}

func (s *Store) ping(ctx context.Context) error {
	conn, err := s.probe.Acquire(ctx)
	if err != nil {
		return asNotBegun(ctx, roleApp, err)
	}
	defer conn.Release()
	return whole(conn.Conn(), checkWritable(ctx, conn.Conn()))
}

// checkWritable returns errReadOnly if the server of the connection is read-only.
func checkWritable(ctx context.Context, conn *pgx.Conn) error {
	var no bool
	if err := conn.QueryRow(ctx, `SELECT current_setting('transaction_read_only')::boolean`).Scan(&no); err != nil {
		return err
	}
	if no {
		return errReadOnly
	}
	return nil
}

// resetInterval is the least time between two resets of a pool that is connected to a read-only
// server, on which reads continue.
const resetInterval = time.Second

// closeConnections closes all connections of the pool when err means that their server is gone or
// read-only, so that new ones are made to the server that the database's address has now.
// Connections in use are closed when they are released.
func (s *Store) closeConnections(err error) {
	switch {
	case readOnly(err):
		now, last := time.Now(), s.lastReset.Load()
		if last != nil && now.Sub(*last) < resetInterval || !s.lastReset.CompareAndSwap(last, &now) {
			return
		}
		slog.Warn("the database is read-only; reconnecting", "error", err)
	case !isConnectionError(err): // otherwise one connection died, and the others probably did too
		return
	}
	s.pool.Reset()
	s.probe.Reset()
}

func poolConfig(url string, o Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The driver's message masks the password where it can find it.
		return nil, &schema.FieldError{Field: "database url", Problem: err.Error()}
	}
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	} else if parsed, err := pgx.ParseConfig(url); err == nil && parsed.RuntimeParams["pool_max_conns"] == "" {
		config.MaxConns = defaultMaxConns
	}
	config.MaxConnLifetime = time.Hour
	config.MaxConnLifetimeJitter = 10 * time.Minute
	config.MaxConnIdleTime = 5 * time.Minute
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	// An idle connection that does not answer at once is dead.
	config.PingTimeout = pingTimeout
	if o.Unanswered <= 0 {
		o.Unanswered = unansweredTimeout
	}
	config.ConnConfig.DialFunc = tcp.DialAnswering(o.Unanswered)
	if !o.standby && severalHosts(config.ConnConfig) && config.ConnConfig.ValidateConnect == nil && !strings.Contains(url, "target_session_attrs") &&
		os.Getenv("PGTARGETSESSIONATTRS") == "" {
		// Only one of several servers accepts writes.
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	params := config.ConnConfig.RuntimeParams
	if o.Name == "" {
		o.Name = "sluice"
	}
	params["application_name"] = o.Name
	params["timezone"] = "UTC"
	if o.Pooled {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		atStart(params, o.lane())
	}
	config.ConnConfig.Tracer = otelpgx.NewTracer(
		otelpgx.WithDisableAcquireTracer(),
		otelpgx.WithDisableConnectionDetailsInAttributes(),
	)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if o.Connected != nil && !o.Pooled {
			o.Connected(conn.PgConn().PID())
		}
		return prepareConn(ctx, conn)
	}
	return config, nil
}

// severalHosts reports whether a URL names more than one server.
func severalHosts(c *pgx.ConnConfig) bool {
	for _, f := range c.Fallbacks { // the same host is listed again, with and without TLS
		if f.Host != c.Host || f.Port != c.Port {
			return true
		}
	}
	return false
}

// prepareConn prepares a new connection: it sets the tenant-bound role and no tenant, so that a
// query outside of the store's transactions sees nothing. Behind a pooler the role stays the
// login's, which has no rights.
func prepareConn(ctx context.Context, conn *pgx.Conn) error {
	var migrated bool
	err := conn.QueryRow(ctx, `SELECT to_regrole('sluice_app') IS NOT NULL AND to_regclass('public.tenants') IS NOT NULL`).Scan(&migrated)
	switch {
	case err != nil:
		return fmt.Errorf("look for the schema: %w", err)
	case !migrated:
		return errNotMigrated
	}
	if err := checkPowers(ctx, conn, databaseSetting); err != nil {
		return err
	}
	if err := pgxvector.RegisterTypes(ctx, conn); err != nil {
		return fmt.Errorf("look up vector types: %w", err)
	}
	registerHalf(conn.TypeMap())
	registerUUID(conn.TypeMap())
	if pooled(conn) {
		return nil
	}
	if _, err := conn.Exec(ctx, `SET ROLE sluice_app`); err != nil {
		return fmt.Errorf("take role sluice_app: %w", err)
	}
	return nil
}

func address(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)
}
