package curate

// The reconciler begins what nobody asked for: curations of collections whose signal got lost, that
// an older build filled, or that have something to sweep by now; and rebuilds and runs that parse
// documents again on which no workflow works. That, and no signal, is what guarantees that each
// comes about.

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

// Found is what the reconciler looks at, of all tenants.
type Found interface {
	// Uncurated lists collections behind one, in the order of their ids: those
	// with versions that were not taken note of for longer than age, or with
	// something to sweep for longer than keep.
	Uncurated(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error)
	// UncuratedChanges lists those of them that are found without counting the segments of every
	// collection.
	UncuratedChanges(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error)
	// Rebuilds lists generations that are being built.
	Rebuilds(ctx context.Context, limit int) ([]wire.Rebuild, error)
	// Reparses lists runs that parse documents again and are under way.
	Reparses(ctx context.Context, limit int) ([]wire.Reparse, error)
}

// Second begins generations of the second encoder.
type Second interface {
	// Begin has a collection built anew with the second encoder, if a server of it answers and none
	// is being built.
	Begin(ctx context.Context) error
}

// Workflows begins workflows. One that runs already goes on as it does.
type Workflows interface {
	Curate(ctx context.Context, in []wire.Curation) error
	Rebuild(ctx context.Context, in wire.Rebuild) error
	Reparse(ctx context.Context, in wire.Reparse) error
}

// ReconcilerOptions are the settings of the reconciler.
type ReconcilerOptions struct {
	Every time.Duration // between two looks
	Age   time.Duration // for which the signal has time
	Keep  time.Duration // as in Options
}

const (
	// atOnce bounds what one look begins, manyAtOnce the collections of it, which are
	// curated together.
	atOnce     = 20
	manyAtOnce = 200
	// A collection whose curation is begun again and again, because something
	// about it fails, waits longer each time.
	firstPause = 10 * time.Second
	mostPause  = 10 * time.Minute
	// The first pass over the collections counts their segments, and then one in so many: only a
	// workflow that was lost leaves any to merge, and they harm nobody for a minute.
	countingPasses = 12
)

// NewReconciler makes the reconciler. One of all leads.
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
	passes    int  // over the collections that began
	counting  bool // this pass counts segments
	begun     map[uuid.UUID]pause
}

// pause is until when a collection is left alone, and how long that is.
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
	look := r.found.UncuratedChanges
	if r.counting {
		look = r.found.Uncurated
	}
	list, err := look(ctx, r.after, r.options.Age, max(r.options.Keep, 0), manyAtOnce)
	if err != nil {
		return fmt.Errorf("list collections to curate: %w", err)
	}
	if r.after = uuid.Nil; len(list) == manyAtOnce {
		r.after = list[len(list)-1].Collection // the rest next time
	}
	now := time.Now()
	for id, p := range r.begun {
		if now.Sub(p.until) > mostPause {
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
		next := min(max(2*r.begun[c.Collection].next, firstPause), mostPause)
		r.begun[c.Collection] = pause{until: now.Add(next), next: next}
		meters.begun.Add(ctx, 1, metric.WithAttributes(attribute.String("workflow", wire.WorkflowCurate)))
		slog.DebugContext(ctx, "began a curation", "tenant", c.Tenant, "collection", c.Collection)
	}
	return nil
}
