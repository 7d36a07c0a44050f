package store

// This file lets searches read from a replica: a hot standby, which lags a little behind the
// database. A read of one collection counts only if the replica has everything that was committed
// to that collection: the database is asked for the collection's revision (lexical_revision.go),
// while the replica returns the revision in the snapshot of its read. The database answers whatever
// the replica cannot.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema"
)

const replicaSetting = "SLUICE_DATABASE_REPLICA_URL"

// Replica reads from a replica of a store's database, and from the database where necessary. It is
// safe for concurrent use. The caller must Close it.
type Replica struct {
	primary, standby *Store
	maxLag           time.Duration
	reads            metric.Int64Counter

	mu         sync.Mutex
	term       context.Context // lasts while the replica is used; nil: it is not
	end        context.CancelFunc
	lastReason string        // why it is not used; empty: nothing was logged yet
	lag        time.Duration // at the last check; negative: not known
	// marks are positions in the database's log that the replica had not replayed yet, oldest
	// first. reached is the time of the last position that it had replayed.
	marks   []walPosition
	reached time.Time
}

// walPosition is the position up to which the database's log was written at a time.
type walPosition struct {
	at       time.Time
	position int64
}

// OpenReplica returns a Replica of primary's database at url. It connects on demand, so a program
// can start while the replica is down. The replica is used once Watch has seen that it lags at most
// maxLag behind.
func OpenReplica(ctx context.Context, primary *Store, url string, maxLag time.Duration, o Options) (*Replica, error) {
	if maxLag <= 0 {
		return nil, schema.Invalid("SLUICE_DATABASE_REPLICA_LAG", "%s: must be positive, such as 5s", maxLag)
	}
	o.standby, o.Pooled = true, primary.options.Pooled
	standby, err := newStore(ctx, url, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", replicaSetting, err)
	}
	r := &Replica{primary: primary, standby: standby, maxLag: maxLag, lag: -1}
	if r.reads, err = replicaMeter.Int64Counter("sluice.database.replica.reads", metric.WithUnit("{read}"),
		metric.WithDescription("Reads of searches, by the server that answered: database or replica.")); err != nil {
		standby.Close()
		return nil, fmt.Errorf("make metrics of the replica: %w", err)
	}
	return r, nil
}

// Close closes the connections to the replica.
func (r *Replica) Close() {
	r.mu.Lock()
	if r.term != nil {
		r.end()
		r.term = nil
	}
	r.mu.Unlock()
	r.standby.Close()
}

// Used reports whether searches read from the replica now.
func (r *Replica) Used() bool { return r.current() != nil }

// Watch returns the service that measures how far the replica lags behind.
func (r *Replica) Watch() lifecycle.Service {
	return lifecycle.NewGroup("replica of the database", time.Second, r.meters(), lifecycle.NewLoop("watch of the replica", nil, func(fetch, _ context.Context) error {
		every := min(time.Second, r.maxLag/4)
		tick := time.NewTicker(max(every, time.Millisecond))
		defer tick.Stop()
		for {
			r.check(fetch)
			select {
			case <-fetch.Done():
				return fetch.Err()
			case <-tick.C:
			}
		}
	}))
}

const (
	writtenSQL  = `SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint`
	replayedSQL = `SELECT CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint ELSE -1 END`
)

// check measures once. When the database does not answer, the marks get old, until it is not known
// how far the replica lags behind.
func (r *Replica) check(ctx context.Context) {
	at := time.Now()
	position, primary := r.number(ctx, r.primary, writtenSQL)
	replayed, standby := r.number(ctx, r.standby, replayedSQL)
	if ctx.Err() != nil {
		return // the program ends
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if primary == nil {
		r.marks = append(r.marks, walPosition{at, position})
		r.marks = r.marks[max(0, len(r.marks)-maxMarks):]
	}
	if standby != nil {
		r.lag = -1
		r.disable(standby)
		return
	}
	for len(r.marks) > 0 && (r.marks[0].position <= replayed || replayed < 0) { // a server that is no standby does not lag
		r.reached, r.marks = r.marks[0].at, r.marks[1:]
	}
	behind := time.Since(r.reached)
	if r.reached.IsZero() {
		behind = r.maxLag + 1
	}
	if r.lag = behind; behind > r.maxLag {
		why := fmt.Errorf("it is more than %s behind", r.maxLag)
		if primary != nil {
			why = fmt.Errorf("how far it is behind is not known: %w", primary)
		}
		r.disable(why)
		return
	}
	if r.term != nil {
		return
	}
	r.term, r.end = context.WithCancel(context.WithoutCancel(ctx))
	r.lastReason = ""
	slog.InfoContext(ctx, "searches read from the replica of the database", "replica", r.at())
}

// maxMarks bounds the marks of a replica that lags far behind; when it catches up, newer marks
// measure it.
const maxMarks = 1000

// disable has searches read from the database. The caller holds r.mu.
func (r *Replica) disable(why error) {
	if r.term != nil {
		r.end() // also ends reads in progress
		r.term = nil
	} else if r.lastReason != "" {
		return
	}
	r.lastReason = why.Error()
	slog.Warn("searches read from the primary database: its replica cannot be used", "replica", r.at(), "error", why)
}

// at returns the replica's address.
func (r *Replica) at() string { return address(r.standby.pool.Config().ConnConfig) }

// number queries a number from a server. The query may take no longer than the replica may lag
// behind.
func (r *Replica) number(ctx context.Context, s *Store, sql string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.maxLag)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err == nil {
		err = whole(conn.Conn(), conn.QueryRow(ctx, sql).Scan(&n))
		conn.Release()
	}
	if err != nil {
		s.closeConnections(err)
		return 0, Translate(err)
	}
	return n, nil
}

// current returns the context that lasts while the replica is used; nil: it is not used.
func (r *Replica) current() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term
}

// errBehind means that the replica does not have everything that was committed to the collection.
var errBehind = errors.New("the replica has another revision of the collection")

// Where reads were answered, as a label of the metric.
const (
	readReplica = "replica" // by the replica
	readBehind  = "behind"  // by the database, because the replica had another revision
	readFailed  = "failed"  // by the database, because the replica failed
	readAway    = "away"    // by the database, because the replica was not used
)

// collectionRevisionSQL selects the revision of collection $2.
const collectionRevisionSQL = `SELECT coalesce(sum(revision), 0)::bigint FROM lexical_revisions WHERE tenant_id = $1 AND collection_id = $2`

// AskTenantAll is Store.AskTenantAll for statements about a single collection. They see at least
// what was committed to the collection before the call.
func (r *Replica) AskTenantAll(ctx context.Context, tenant, collection uuid.UUID, queue func(b *pgx.Batch)) error {
	answered := r.try(ctx, tenant, collection, func(ctx context.Context, newest func() (int64, error)) error {
		conn, err := r.standby.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var has int64
		// The first statement returns the revision that the later ones see at least.
		if err := whole(conn.Conn(), r.standby.ask(ctx, conn.Conn(), tenant, func(b *pgx.Batch) {
			b.Queue(collectionRevisionSQL, tenant, collection).QueryRow(func(row pgx.Row) error { return row.Scan(&has) })
			queue(b)
		})); err != nil {
			return err
		}
		return compareRevision(has, newest)
	})
	if answered {
		return nil
	}
	return r.primary.AskTenantAll(ctx, tenant, queue)
}

// ReadTenant is Store.ReadTenant for reads of a single collection; see AskTenantAll.
func (r *Replica) ReadTenant(ctx context.Context, tenant, collection uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	answered := r.try(ctx, tenant, collection, func(ctx context.Context, newest func() (int64, error)) error {
		o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return r.standby.once(ctx, o, roleApp, tenant.String(), func(ctx context.Context, tx pgx.Tx) error {
			var has int64
			if err := tx.QueryRow(ctx, collectionRevisionSQL, tenant, collection).Scan(&has); err != nil {
				return err
			}
			if err := compareRevision(has, newest); err != nil {
				return err // before reads that may take long
			}
			return fn(ctx, tx)
		})
	})
	if answered {
		return nil
	}
	return r.primary.ReadTenant(ctx, tenant, fn)
}

func compareRevision(has int64, newest func() (int64, error)) error {
	want, err := newest()
	if err != nil {
		return fmt.Errorf("%w: %w", errBehind, err) // the database returns the actual error
	}
	if has != want {
		return errBehind
	}
	return nil
}

// try has the replica answer a read, and reports whether it did. After any error the caller reads
// from the database, which returns the error too if it is real. Reads within a transaction of the
// database are never moved to the replica.
func (r *Replica) try(ctx context.Context, tenant, collection uuid.UUID, read func(ctx context.Context, newest func() (int64, error)) error) bool {
	if tenant == uuid.Nil || outerOf(ctx, r.primary) != nil {
		return false
	}
	term := r.current()
	if term == nil {
		r.count(ctx, readAway)
		return false
	}
	ask := r.primary.AskRevision(ctx, tenant, collection)
	newest := sync.OnceValues(ask)
	defer newest() //nolint:errcheck // it is asked, so it must be heard
	readCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term, cancel)()
	err := read(readCtx, newest)
	switch {
	case err == nil:
		r.count(ctx, readReplica)
		return true
	case ctx.Err() != nil: // the caller's time is up
	case errors.Is(err, errBehind):
		r.count(ctx, readBehind)
	default:
		r.count(ctx, readFailed)
		slog.DebugContext(ctx, "the replica did not answer", "tenant", tenant, "collection", collection, "error", err)
		if term.Err() == nil && isConnectionError(err) {
			r.standby.closeConnections(err)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.term == term { // it may be in use again
				r.disable(Translate(err))
			}
		}
	}
	return false
}
