// Package curate tends collections after ingestion: it has the steps of the workflow
// CurateCollection, and the reconciler that starts curations whose signal was lost or that no
// signal asks for.
//
// Each step finds its work in the store and does some of it; none relies on the contents of a
// signal. So a step may run twice at once, be killed anywhere, and be started by any process any
// number of times.
package curate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/curate"

var tracer = otel.Tracer(scope)

// Store does the work. Every method concerns the live generation of a collection, unless it says
// otherwise, and returns schema.ErrNotFound if the collection was deleted.
type Store interface {
	// BackfillLexical indexes up to limit versions that are missing from the lexical index.
	BackfillLexical(ctx context.Context, tenant, collection uuid.UUID, limit int) (done, left int, err error)
	// ClusterChanged updates the clusters for some versions that were added or removed, and marks
	// these as curated.
	ClusterChanged(ctx context.Context, tenant, collection uuid.UUID) (done int, more bool, err error)
	// MergeSegments does one merge of index segments. It returns 0 if none was due.
	MergeSegments(ctx context.Context, tenant, collection uuid.UUID) (merged int, err error)
	// VectorsDue reports whether there is something to do for TendVectors. It reads little.
	VectorsDue(ctx context.Context, tenant, collection uuid.UUID) (bool, error)
	// TendVectors does one step for the vectors of a large collection. It returns
	// due.ErrBuildsTaken if it would have to build an index while the maximum number of builds is
	// under way.
	TendVectors(ctx context.Context, tenant, collection uuid.UUID) (more bool, err error)
	// DropMerged removes segments that were merged more than age ago.
	DropMerged(ctx context.Context, tenant, collection uuid.UUID, age time.Duration) (int, error)
	// RemoveGenerations removes part of what is left of generations that ended more than age ago:
	// passages and vectors of up to limit versions at a time.
	RemoveGenerations(ctx context.Context, tenant, collection uuid.UUID, age time.Duration, limit int) (removed int, more bool, err error)
	// WorkDue returns what is due for collections of a tenant; collections without a row are left
	// out. What was replaced is due to be swept after keep.
	WorkDue(ctx context.Context, tenant uuid.UUID, collections []uuid.UUID, keep time.Duration) (map[uuid.UUID]due.Work, error)
	// PurgeCollection removes up to limit rows of each kind that belong to a collection, if it was
	// deleted.
	PurgeCollection(ctx context.Context, tenant, collection uuid.UUID, limit int) (removed int, more bool, err error)
}

// Encoder encodes versions that were written before they were encoded.
type Encoder interface {
	// Encode encodes some versions of a collection, and reports whether there are more.
	Encode(ctx context.Context, tenant, collection uuid.UUID) (done int, more bool, err error)
}

// Vectors starts the workflow that tends a collection's vectors, or signals it that something
// changed. It does not wait for the workflow.
type Vectors interface {
	TendVectors(ctx context.Context, in wire.Curation) error
}

// Options are the settings of curation. Zero values take the defaults.
type Options struct {
	// Slice is how long one run of a step continues while there is work. Between runs, signals are
	// received and the other steps run. Default 20 s.
	Slice time.Duration
	// Keep is how long data that a merge or another generation replaced stays for the queries that
	// still read it. Default 10 minutes; negative means not at all.
	Keep time.Duration
}

func (o Options) defaults() Options {
	if o.Slice <= 0 {
		o.Slice = 20 * time.Second
	}
	if o.Keep == 0 {
		o.Keep = 10 * time.Minute
	}
	return o
}

// How many versions or rows one call of the store handles at most.
const (
	backfillVersions = 256
	removeVersions   = 200
	purgeRows        = 5000
)

// Activities are the steps of CurateCollection.
type Activities struct {
	store   Store
	encoder Encoder
	vectors Vectors
	options Options
}

// NewActivities returns the steps.
func NewActivities(s Store, e Encoder, v Vectors, o Options) *Activities {
	return &Activities{store: s, encoder: e, vectors: v, options: o.defaults()}
}

// Backfill indexes versions that are missing from the lexical index, and has versions without
// vectors encoded.
func (a *Activities) Backfill(ctx context.Context, in wire.Curation) (wire.Curated, error) {
	return a.run(ctx, "backfill", in, func(ctx context.Context) (int, bool, error) {
		done, left, err := a.store.BackfillLexical(ctx, in.Tenant, in.Collection, backfillVersions)
		if err != nil || done > 0 && left > 0 {
			return done, true, err
		}
		encoded, more, err := a.encoder.Encode(ctx, in.Tenant, in.Collection)
		return done + encoded, more, err
	})
}

// Cluster updates the clusters for sections that were added or removed.
func (a *Activities) Cluster(ctx context.Context, in wire.Curation) (wire.Curated, error) {
	return a.run(ctx, "cluster", in, func(ctx context.Context) (int, bool, error) {
		done, more, err := a.store.ClusterChanged(ctx, in.Tenant, in.Collection)
		return done, done > 0 && more, err
	})
}

// Merge merges segments of the lexical index as long as a merge is due.
func (a *Activities) Merge(ctx context.Context, in wire.Curation) (wire.Curated, error) {
	return a.run(ctx, "merge", in, func(ctx context.Context) (int, bool, error) {
		n, err := a.store.MergeSegments(ctx, in.Tenant, in.Collection)
		return n, n > 0, err
	})
}

// Vectors starts the workflow that tends the vectors of a large collection, if something is due for
// them.
func (a *Activities) Vectors(ctx context.Context, in wire.Curation) (wire.Curated, error) {
	return a.run(ctx, "vectors", in, func(ctx context.Context) (int, bool, error) {
		is, err := a.store.VectorsDue(ctx, in.Tenant, in.Collection)
		if err != nil || !is {
			return 0, false, err
		}
		return 1, false, a.vectors.TendVectors(ctx, in)
	})
}

// TendVectors tends the vectors of a large collection.
func (a *Activities) TendVectors(ctx context.Context, in wire.Curation) (wire.Curated, error) {
	taken := false
	out, err := a.run(ctx, "tend vectors", in, func(ctx context.Context) (int, bool, error) {
		more, err := a.store.TendVectors(ctx, in.Tenant, in.Collection)
		if taken = errors.Is(err, due.ErrBuildsTaken); taken {
			return 0, false, nil
		}
		if more {
			return 1, true, err
		}
		return 0, false, err
	})
	if taken {
		out = wire.Curated{More: true} // to be done when other builds have ended
	}
	return out, err
}

// Sweep removes merged segments, ended generations, and what is left of a deleted collection.
func (a *Activities) Sweep(ctx context.Context, in wire.Curation) (wire.Curated, error) {
	keep := max(a.options.Keep, 0)
	return a.run(ctx, "sweep", in, func(ctx context.Context) (int, bool, error) {
		merged, err := a.store.DropMerged(ctx, in.Tenant, in.Collection, keep)
		if err != nil {
			return merged, false, fmt.Errorf("drop merged segments: %w", err)
		}
		removed, more, err := a.store.RemoveGenerations(ctx, in.Tenant, in.Collection, keep, removeVersions)
		if err != nil {
			return merged + removed, false, fmt.Errorf("remove generations: %w", err)
		}
		purged, left, err := a.store.PurgeCollection(ctx, in.Tenant, in.Collection, purgeRows)
		if err != nil {
			return merged + removed + purged, false, fmt.Errorf("purge the collection: %w", err)
		}
		return merged + removed + purged, more || left, nil
	})
}

// task does some work, and reports how much and whether more can be done now. What remains when it
// did nothing waits for something else.
type task func(ctx context.Context) (did int, more bool, err error)

// run calls do until nothing is left, the options' Slice has passed or ctx ends. It sends
// heartbeats meanwhile.
func (a *Activities) run(ctx context.Context, step string, in wire.Curation, do task) (out wire.Curated, err error) {
	ctx, span := tracer.Start(ctx, "curate "+step, trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()), attribute.String("sluice.collection", in.Collection.String())))
	defer span.End()
	defer heartbeat.Start(ctx, heartbeat.Every)()
	begin := time.Now()
	for {
		var did int
		did, out.More, err = do(ctx)
		out.Did += did
		if err != nil || !out.More || time.Since(begin) > a.options.Slice || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, schema.ErrNotFound) {
		out.More, err = false, nil // the collection was deleted; Sweep removes what is left
	}
	meters.record(ctx, step, time.Since(begin), out.Did, err)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		slog.WarnContext(ctx, "a step of a curation failed", "step", step, "tenant", in.Tenant, "collection", in.Collection,
			"try", activity.GetInfo(ctx).Attempt, "error", err)
		return out, fmt.Errorf("curate %s: %w", step, err)
	}
	if out.Did > 0 {
		slog.DebugContext(ctx, "curated", "step", step, "tenant", in.Tenant, "collection", in.Collection, "did", out.Did, "more", out.More)
	}
	return out, nil
}

// instruments are curation's metrics.
type instruments struct {
	runs, did, begun metric.Int64Counter
	duration         metric.Float64Histogram
}

var meters = newInstruments()

func newInstruments() instruments {
	meter := otel.Meter(scope)
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		must(err)
		return c
	}
	duration, err := meter.Float64Histogram("sluice.curate.step.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a step of a curation, by step."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300))
	must(err)
	return instruments{
		runs:     counter("sluice.curate.steps", "{step}", "Steps of curations that ran, by step and outcome."),
		did:      counter("sluice.curate.done", "{thing}", "Things that steps processed, by step: versions indexed and clustered, segments merged, rows and segments swept, steps for vectors."),
		begun:    counter("sluice.curate.begun", "{workflow}", "Curations and rebuilds that the reconciler began, by workflow."),
		duration: duration,
	}
}

// must panics on an invalid instrument, which is a programming error.
func must(err error) {
	if err != nil {
		panic("curate: " + err.Error())
	}
}

func (m instruments) record(ctx context.Context, step string, took time.Duration, did int, err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	of := attribute.String("step", step)
	m.runs.Add(ctx, 1, metric.WithAttributes(of, attribute.String("outcome", outcome)))
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributes(of))
	if did > 0 {
		m.did.Add(ctx, int64(did), metric.WithAttributes(of))
	}
}
