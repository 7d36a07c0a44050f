package curate

// The reconciler starts what no signal asks for: curations of collections whose signal was lost,
// that an older build filled, or that have something to sweep by now; and rebuilds and reparse runs
// that no workflow works on. The reconciler, not the signals, guarantees that all of these are
// done.

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Found is what the reconciler reads, across all tenants.
type Found interface {
	// Uncurated lists up to limit collections with ids above after, in the order of their ids, that
	// need curation: those with changes that have not been dealt with for longer than age, or with
	// something to sweep for longer than keep.
	Uncurated(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error)
	// UncuratedChanges lists the same except collections with nothing but segments to merge, so
	// that it need not count the segments of every collection.
	UncuratedChanges(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error)
	// Rebuilds lists generations that are being built.
	Rebuilds(ctx context.Context, limit int) ([]wire.Rebuild, error)
	// Reparses lists runs in progress that parse documents again.
	Reparses(ctx context.Context, limit int) ([]wire.Reparse, error)
}

// Second starts rebuilds with the second encoder.
type Second interface {
	// Begin starts a rebuild of a collection with the second encoder, if a server of it answers and
	// no such rebuild is under way.
	Begin(ctx context.Context) error
}

// Workflows starts workflows. Starting one that is already running has no effect on it.
type Workflows interface {
	Curate(ctx context.Context, in []wire.Curation) error
	Rebuild(ctx context.Context, in wire.Rebuild) error
	Reparse(ctx context.Context, in wire.Reparse) error
}

// ReconcilerOptions are the settings of the reconciler.
type ReconcilerOptions struct {
	Every time.Duration // interval of the rounds
	Age   time.Duration // how old a change must be, so that its signal has had time to arrive
	Keep  time.Duration // as in Options
}

const (
	// atOnce bounds the rebuilds and the reparse runs that one round starts, manyAtOnce the
	// collections that it starts curations of together.
	atOnce     = 20
	manyAtOnce = 200
	// A collection whose curation is started again and again, because something about it fails,
	// waits longer each time, from firstPause to maxPause.
	firstPause = 10 * time.Second
	maxPause   = 10 * time.Minute
	// The first pass over the collections counts their segments, and after that one in
	// countingPasses does: only a lost workflow leaves segments to merge, and these do no harm for
	// a minute.
	countingPasses = 12
)

// NewReconciler returns the reconciler. It works in the process that elector makes the leader.
func NewReconciler(f Found, second Second, w Workflows, elector lifecycle.Elector, o ReconcilerOptions) lifecycle.Service {
	if o.Keep == 0 {
		o.Keep = Options{}.defaults().Keep
	}
	r := &reconciler{found: f, second: second, workflows: w, options: o, begun: map[uuid.UUID]pause{}}
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "curation reconciler", Elector: elector, Every: o.Every,
		Round: func(fetch, _ context.Context) error { return r.round(fetch) }})
}

type reconciler struct {
	found     Found
	second    Second
	workflows Workflows
	options   ReconcilerOptions
	after     uuid.UUID
	passes    int  // started passes over the collections
	counting  bool // this pass counts segments
	begun     map[uuid.UUID]pause
}

// pause says until when a collection is left alone, and how long that pause is.
type pause struct {
	until time.Time
	next  time.Duration
}

func (r *reconciler) round(ctx context.Context) error {
	if err := r.second.Begin(ctx); err != nil {
		return err
	}
	rebuilds, err := r.found.Rebuilds(ctx, atOnce)
	if err != nil {
		return fmt.Errorf("list rebuilds: %w", err)
	}
	for _, b := range rebuilds {
		if err := r.workflows.Rebuild(ctx, b); err != nil {
			return err
		}
	}
	reparses, err := r.found.Reparses(ctx, atOnce)
	if err != nil {
		return fmt.Errorf("list runs that parse documents again: %w", err)
	}
	for _, run := range reparses {
		if err := r.workflows.Reparse(ctx, run); err != nil {
			return err
		}
	}
	if r.after == uuid.Nil {
		r.counting = r.passes%countingPasses == 0
		r.passes++
	}
	find := r.found.UncuratedChanges
	if r.counting {
		find = r.found.Uncurated
	}
	list, err := find(ctx, r.after, r.options.Age, max(r.options.Keep, 0), manyAtOnce)
	if err != nil {
		return fmt.Errorf("list collections to curate: %w", err)
	}
	if r.after = uuid.Nil; len(list) == manyAtOnce {
		r.after = list[len(list)-1].Collection // the rest next time
	}
	now := time.Now()
	for id, p := range r.begun {
		if now.Sub(p.until) > maxPause {
			delete(r.begun, id)
		}
	}
	var begin []wire.Curation
	for _, c := range list {
		if now.After(r.begun[c.Collection].until) {
			begin = append(begin, c)
		}
	}
	if len(begin) == 0 {
		return nil
	}
	if err := r.workflows.Curate(ctx, begin); err != nil {
		return err
	}
	for _, c := range begin {
		next := min(max(2*r.begun[c.Collection].next, firstPause), maxPause)
		r.begun[c.Collection] = pause{until: now.Add(next), next: next}
		meters.begun.Add(ctx, 1, metric.WithAttributes(attribute.String("workflow", wire.WorkflowCurate)))
		slog.DebugContext(ctx, "began a curation", "tenant", c.Tenant, "collection", c.Collection)
	}
	return nil
}
