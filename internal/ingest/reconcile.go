package ingest

// The reconciler queues versions again whose lease has ended or whose message is lost. It
// guarantees that each version reaches a final state.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Unfinished is the store as the reconciler sees it.
type Unfinished interface {
	// Ping returns an error unless the store takes writes.
	Ping(ctx context.Context) error
	RequeueExpired(ctx context.Context, ttl, grace time.Duration, limit int) (queued, failed int, err error)
	RequeueStranded(ctx context.Context, tenant uuid.UUID, before time.Time, limit int) (int, error)
	Backlogs(ctx context.Context, before time.Time) (tenants []batch.Backlog, oldest time.Time, err error)
	OutboxDepth(ctx context.Context) (rows int64, oldest time.Time, err error)
	// AnalyzeChanged refreshes the database planner's statistics after uploads.
	AnalyzeChanged(ctx context.Context) error
	SweepArtifacts(ctx context.Context, olderThan time.Duration, limit int) error
	// AddUpStored adds up the recorded changes of tenants' stored amounts.
	AddUpStored(ctx context.Context) error
}

const (
	requeueRows = 500 // the most rows of one query in a round
	sweepEvery  = 10 * time.Minute
	sweepAge    = time.Hour
	// maxUnexpected is the maximum number of unreadable messages that are skipped in the search for
	// a tenant's oldest readable one.
	maxUnexpected = 64
)

// NewReconciler returns the reconciler. It works in the process that elector makes the leader.
func NewReconciler(u Unfinished, js jetstream.JetStream, elector lifecycle.Elector, o Options) (lifecycle.Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := reconciler{unfinished: u, js: js, options: o}
	var swept time.Time
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "reconciler", Elector: elector, Every: o.Reconcile,
		Round: func(fetch, _ context.Context) error {
			err := errors.Join(r.round(fetch), u.AddUpStored(fetch))
			if time.Since(swept) > sweepEvery {
				swept = time.Now()
				err = errors.Join(err, u.SweepArtifacts(fetch, sweepAge, requeueRows))
			}
			return err
		},
		Standby: r.runStandby,
	}), nil
}

// runStandby runs in a process that does not lead: it notes outages, too, and reports zero for all
// gauges.
func (r *reconciler) runStandby(ctx context.Context, err error) {
	if err != nil {
		r.outage = true
		return
	}
	r.settle(time.Now())
	meters.outbox.Record(ctx, 0)
	meters.outboxAge.Record(ctx, 0)
	meters.lag.Record(ctx, 0)
	meters.backlog.Record(ctx, 0)
}

type reconciler struct {
	unfinished Unfinished
	js         jetstream.JetStream
	options    Options
	outage     bool      // the store was unavailable when it was last pinged
	since      time.Time // when the store came back from an outage; zero if there was none
}

// settled reports whether an ended lease means that its holder is gone. For a while after an outage
// of the store it does not, because the holders could not extend their leases.
func (r *reconciler) settled(ctx context.Context, now time.Time) (bool, error) {
	if err := r.unfinished.Ping(ctx); err != nil {
		r.outage = true
		return false, err
	}
	r.settle(now)
	return r.since.IsZero() || now.Sub(r.since) >= r.options.Lease/4, nil
}

// settle notes that the store is available at now.
func (r *reconciler) settle(now time.Time) {
	if r.outage {
		r.outage, r.since = false, now
	}
}

// requeueExpired queues versions that no worker works on any more.
func (r *reconciler) requeueExpired(ctx context.Context) error {
	settled, err := r.settled(ctx, time.Now())
	if err != nil || !settled {
		return err
	}
	n, crashed, err := r.unfinished.RequeueExpired(ctx, r.options.Lease, r.options.Grace, requeueRows)
	if err != nil {
		return fmt.Errorf("queue versions with ended leases: %w", err)
	}
	r.logRequeued(ctx, "lease", n)
	if crashed > 0 {
		slog.WarnContext(ctx, "versions failed: their workers died too often", "versions", crashed)
		meters.outcome(ctx, "failed", crashed)
	}
	return nil
}

func (r *reconciler) round(ctx context.Context) error {
	if err := r.requeueExpired(ctx); err != nil {
		return err
	}
	if err := r.unfinished.AnalyzeChanged(ctx); err != nil {
		return err
	}

	now := time.Now()
	rows, first, err := r.unfinished.OutboxDepth(ctx)
	if err != nil {
		return fmt.Errorf("look at the outbox: %w", err)
	}
	meters.outbox.Record(ctx, rows)
	meters.outboxAge.Record(ctx, age(now, first))
	tenants, oldest, err := r.unfinished.Backlogs(ctx, now.Add(-r.options.Requeue))
	if err != nil {
		return fmt.Errorf("look for waiting versions: %w", err)
	}
	meters.lag.Record(ctx, age(now, oldest))
	stream, err := r.js.Stream(ctx, wire.StreamIngest)
	if err != nil {
		// Intake and relay create the stream again; without it nothing is known about messages.
		return fmt.Errorf("look at stream %s: %w", wire.StreamIngest, err)
	}
	meters.backlog.Record(ctx, int64(stream.CachedInfo().State.Msgs))
	for _, t := range tenants {
		// A tenant's messages leave outbox and stream in the order in which they were queued. So a
		// version that was queued well before the oldest of them, and that nobody has claimed, has
		// lost its message.
		before, err := r.oldestMessage(ctx, stream, t.Tenant, now)
		if err != nil {
			return err
		}
		if !t.Outbox.IsZero() && t.Outbox.Before(before) {
			before = t.Outbox
		}
		n, err := r.unfinished.RequeueStranded(ctx, t.Tenant, before.Add(-r.options.Requeue), requeueRows)
		if err != nil {
			return fmt.Errorf("queue stranded versions of tenant %s: %w", t.Tenant, err)
		}
		r.logRequeued(ctx, "stranded", n)
	}
	return nil
}

// age returns the seconds from then to now; 0 if then is zero.
func age(now, then time.Time) float64 {
	if then.IsZero() {
		return 0
	}
	return max(now.Sub(then).Seconds(), 0)
}

// oldestMessage returns when the oldest message of a tenant in the stream was queued, or otherwise
// if there is none.
func (r *reconciler) oldestMessage(ctx context.Context, stream jetstream.Stream, tenant uuid.UUID, otherwise time.Time) (time.Time, error) {
	subject := wire.IngestSubject(tenant)
	var seq uint64
	for range maxUnexpected {
		msg, err := stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return otherwise, nil
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("find the oldest message of %s: %w", subject, err)
		}
		if _, err := wire.Decode[wire.IngestMessage](msg.Data); err == nil {
			if at, err := time.Parse(time.RFC3339Nano, msg.Header.Get(HeaderQueued)); err == nil {
				return at, nil
			}
		}
		seq = msg.Sequence // a message that is kept for a newer worker
	}
	return otherwise, nil
}

func (r *reconciler) logRequeued(ctx context.Context, cause string, n int) {
	if n == 0 {
		return
	}
	slog.InfoContext(ctx, "queued versions again", "versions", n, "cause", cause)
	meters.requeued.Add(ctx, int64(n), metric.WithAttributes(attribute.String("cause", cause)))
}
