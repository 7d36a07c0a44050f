package store

// This file lets searches read from a replica: a hot standby, which has what the
// database has a little later. A read that is of one collection counts when the
// replica has all that was committed to that collection: the database is asked for
// the collection's revision alone (lexical_revision.go), at the same time, and the
// replica tells which one it has in the same snapshot. Whatever the replica cannot
// answer the database does.

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

// Replica reads from a replica of a store's database, and from the database where
// that is needed. It is safe for concurrent use; Close it at the end.
type Replica struct {
	primary, standby *Store
	most             time.Duration
	reads            metric.Int64Counter

	mu   sync.Mutex
	term context.Context // while the replica is used; nil: it is not
	end  context.CancelFunc
	said string        // why it is not; empty: nothing was said yet
	lag  time.Duration // when last looked at; negative: not known
	// marks are states of the database's log that the replica had not come to yet,
	// oldest first, and reached is when the last one was written that it had.
	marks   []logMark
	reached time.Time
}

// logMark is how far the database's log was written at a time.
type logMark struct {
	at       time.Time
	position int64
}

// OpenReplica makes a Replica of primary's database at url. It connects when it is
// needed: a replica that is away keeps nobody from starting. It is used once Watch
// has seen that it is at most so far behind.
func OpenReplica(ctx context.Context, primary *Store, url string, most time.Duration, o Options) (*Replica, error) {
	if most <= 0 {
		return nil, schema.Invalid("SLUICE_DATABASE_REPLICA_LAG", "%s: needs more than nothing, as 5s", most)
	}
	o.standby, o.Pooled = true, primary.options.Pooled
	standby, err := newStore(ctx, url, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", replicaSetting, err)
	}
	r := &Replica{primary: primary, standby: standby, most: most, lag: -1}
	if r.reads, err = replicaMeter.Int64Counter("sluice.database.replica.reads", metric.WithUnit("{read}"),
		metric.WithDescription("Reads of searches by where they were answered.")); err != nil {
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

// Watch is what looks, as long as it runs, how far the replica is behind.
func (r *Replica) Watch() lifecycle.Service {
	return lifecycle.NewGroup("replica of the database", time.Second, r.meters(), lifecycle.NewLoop("watch of the replica", nil, func(fetch, _ context.Context) error {
		every := min(time.Second, r.most/4)
		tick := time.NewTicker(max(every, time.Millisecond))
		defer tick.Stop()
		for {
			r.look(fetch)
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

// look looks once. When the database does not answer, marks get old, and at last
// nobody knows how far the replica is behind.
func (r *Replica) look(ctx context.Context) {
	at := time.Now()
	position, primary := r.number(ctx, r.primary, writtenSQL)
	replayed, standby := r.number(ctx, r.standby, replayedSQL)
	if ctx.Err() != nil {
		return // the program ends
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if primary == nil {
		r.marks = append(r.marks, logMark{at, position})
		r.marks = r.marks[max(0, len(r.marks)-maxMarks):]
	}
	if standby != nil {
		r.lag = -1
		r.leave(standby)
		return
	}
	for len(r.marks) > 0 && (r.marks[0].position <= replayed || replayed < 0) { // one that is no standby is not behind
		r.reached, r.marks = r.marks[0].at, r.marks[1:]
	}
	behind := time.Since(r.reached)
	if r.reached.IsZero() {
		behind = r.most + 1
	}
	if r.lag = behind; behind > r.most {
		why := fmt.Errorf("it is more than %s behind", r.most)
		if primary != nil {
			why = fmt.Errorf("how far it is behind is not known: %w", primary)
		}
		r.leave(why)
		return
	}
	if r.term != nil {
		return
	}
	r.term, r.end = context.WithCancel(context.WithoutCancel(ctx))
	r.said = ""
	slog.InfoContext(ctx, "searches read from the replica of the database", "replica", r.at())
}

// maxMarks bounds the marks of a replica that is far behind: it is measured by newer
// ones when it comes back.
const maxMarks = 1000

// leave has searches read from the database. r.mu is held.
func (r *Replica) leave(why error) {
	if r.term != nil {
		r.end() // reads in hand, too
		r.term = nil
	} else if r.said != "" {
		return
	}
	r.said = why.Error()
	slog.Warn("searches read from the database itself: its replica cannot be used", "replica", r.at(), "error", why)
}

// at is where the replica is.
func (r *Replica) at() string { return address(r.standby.pool.Config().ConnConfig) }

// number asks a server for one. It may take no longer than the replica may be behind.
func (r *Replica) number(ctx context.Context, s *Store, sql string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.most)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err == nil {
		err = whole(conn.Conn(), conn.QueryRow(ctx, sql).Scan(&n))
		conn.Release()
	}
	if err != nil {
		s.leave(err)
		return 0, Translate(err)
	}
	return n, nil
}

// current is the context that lasts while the replica is used; nil: it is not.
func (r *Replica) current() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term
}

// errBehind says that the replica has not all that was committed to the collection.
var errBehind = errors.New("the replica has another revision of the collection")

// Where reads were answered, as the metric says it.
const (
	readReplica = "replica" // by the replica
	readBehind  = "behind"  // by the database, the replica having another revision
	readFailed  = "failed"  // by the database, the replica having failed
	readAway    = "away"    // by the database, the replica not being used
)

// collectionRevisionSQL is the revision of collection $2.
const collectionRevisionSQL = `SELECT coalesce(sum(revision), 0)::bigint FROM lexical_revisions WHERE tenant_id = $1 AND collection_id = $2`

// AskTenantAll is that of the store for statements that are about one collection
// alone. What it shows is what was committed to the collection before it was called,
// or is newer.
func (r *Replica) AskTenantAll(ctx context.Context, tenant, collection uuid.UUID, queue func(b *pgx.Batch)) error {
	answered := r.try(ctx, tenant, collection, func(ctx context.Context, newest func() (int64, error)) error {
		conn, err := r.standby.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var has int64
		// The first statement says what those behind it see at least.
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

// ReadTenant is that of the store for reads that are about one collection alone; see
// AskTenantAll.
func (r *Replica) ReadTenant(ctx context.Context, tenant, collection uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	answered := r.try(ctx, tenant, collection, func(ctx context.Context, newest func() (int64, error)) error {
		o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return r.standby.once(ctx, o, roleApp, tenant.String(), func(ctx context.Context, tx pgx.Tx) error {
			var has int64
			if err := tx.QueryRow(ctx, collectionRevisionSQL, tenant, collection).Scan(&has); err != nil {
				return err
			}
			if err := compareRevision(has, newest); err != nil {
				return err // before what may take long
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
		return fmt.Errorf("%w: %w", errBehind, err) // the database says what is wrong with it
	}
	if has != want {
		return errBehind
	}
	return nil
}

// try has the replica answer a read, and reports whether it did: an error of any kind
// is for the database to find, too. What is read within a transaction of the database
// belongs to that.
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
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term, cancel)()
	err := read(reading, newest)
	switch {
	case err == nil:
		r.count(ctx, readReplica)
		return true
	case ctx.Err() != nil: // the caller's time is over
	case errors.Is(err, errBehind):
		r.count(ctx, readBehind)
	default:
		r.count(ctx, readFailed)
		slog.DebugContext(ctx, "the replica did not answer", "tenant", tenant, "collection", collection, "error", err)
		if term.Err() == nil && lost(err) {
			r.standby.leave(err)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.term == term { // it may be back already
				r.leave(Translate(err))
			}
		}
	}
	return false
}
