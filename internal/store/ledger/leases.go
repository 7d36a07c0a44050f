package ledger

// This file keeps leases on the steps of questions: the holder, a call, may be sent to a language
// model for the step. The leases of a process's calls are renewed together.

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// leaseTime is how long a lease lasts after its process is gone; renewEvery is how often a
	// living process renews it.
	leaseTime, renewEvery = 10 * time.Second, 2 * time.Second
	// A call that waits for another's lease checks after minPoll, then less and less often, down to
	// every maxPoll.
	minPoll, maxPoll = 50 * time.Millisecond, time.Second
)

const (
	takeLeaseSQL = `
INSERT INTO llm_leases AS l (tenant_id, question_id, round, step, item, holder, call_id, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::interval)
ON CONFLICT (tenant_id, question_id, round, step, item) DO UPDATE SET holder = excluded.holder, call_id = excluded.call_id, expires_at = excluded.expires_at
WHERE l.expires_at <= clock_timestamp()`
	dropLeaseSQL = `
DELETE FROM llm_leases
WHERE tenant_id = $1 AND question_id = $2 AND round = $3 AND step = $4 AND item = $5 AND call_id = $6`
	renewLeasesSQL = `UPDATE llm_leases SET expires_at = clock_timestamp() + $2::interval WHERE holder = ANY ($1)`
)

// leases are the leases of one process. It is safe for concurrent use.
type leases struct {
	db *store.Store

	mu   sync.Mutex
	open map[uuid.UUID]bool // calls; the lease of any other expires
	stop func()             // ends the renewal, which runs while there are leases, and waits until it has ended
}

func newLeases(db *store.Store) *leases { return &leases{db: db, open: map[uuid.UUID]bool{}} }

// take leases the step of a call, unless another call has the lease.
func (l *leases) take(ctx context.Context, tx pgx.Tx, call llm.Call) (bool, error) {
	s := call.Step
	tag, err := tx.Exec(ctx, takeLeaseSQL, call.Tenant, s.Question, s.Round, s.Step, s.Item, call.ID, call.ID, leaseTime)
	return err == nil && tag.RowsAffected() > 0, err
}

// drop ends the lease of a call, if it holds it.
func drop(ctx context.Context, tx pgx.Tx, call llm.Call) error {
	s := call.Step
	_, err := tx.Exec(ctx, dropLeaseSQL, call.Tenant, s.Question, s.Round, s.Step, s.Item, call.ID)
	return err
}

// releaseTime bounds the time for ending the lease of a failed call.
const releaseTime = 5 * time.Second

// release ends the lease of a failed call, even when the caller's ctx has ended.
func (l *leases) release(ctx context.Context, call llm.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	err := l.db.AsTenant(ctx, call.Tenant, func(ctx context.Context, tx pgx.Tx) error { return drop(ctx, tx, call) })
	if err != nil { // it expires
		slog.WarnContext(ctx, "cannot end the lease of a call to a language model", "tenant", call.Tenant, "question", call.Step.Question, "error", err)
	}
}

// hold has the lease of a call renewed until release is called.
func (l *leases) hold(call uuid.UUID) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[call] = true; len(l.open) == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		var done sync.WaitGroup
		done.Go(func() { l.renew(ctx) })
		l.stop = func() { cancel(); done.Wait() }
	}
	return func() {
		l.mu.Lock()
		delete(l.open, call)
		last, stop := len(l.open) == 0, l.stop
		l.mu.Unlock()
		if last {
			stop()
		}
	}
}

// held returns the calls whose leases are renewed.
func (l *leases) held() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.open))
}

func (l *leases) renew(ctx context.Context) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := l.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, renewLeasesSQL, l.held(), leaseTime)
			return err
		})
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot renew the leases of calls to language models", "error", err)
		}
	}
}
