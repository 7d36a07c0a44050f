// Package run runs plans: every stage takes candidates and gives candidates, and
// reports what went in, what came out, why, and how long it took. That report is
// the explanation of a search.
//
// A plan has two results. The ranking is what the stages up to the first that
// selects (gradient, limit, order) find; the context is what the selecting ones
// choose of it, to make an answer from.
package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/stage"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/retrieval"

const (
	maxDocuments = 1000 // documents that a query may ask for
	// attempts are how often a plan begins: again when a rebuilt generation
	// became live while it ran.
	attempts = 3
)

// Engine runs plans. It is safe for concurrent use.
type Engine struct {
	plans    *plan.Catalogue
	sources  retrieval.Sources
	pack     *stage.Pack
	states   *stage.StateCache
	tracer   trace.Tracer
	duration metric.Float64Histogram
	out      metric.Int64Histogram
}

// NewEngine makes an Engine of its parts.
func NewEngine(plans *plan.Catalogue, sources retrieval.Sources) (*Engine, error) {
	meter := otel.Meter(scope)
	duration, err := meter.Float64Histogram("sluice.plan.stage.duration", metric.WithUnit("s"),
		metric.WithDescription("time that a stage of a plan took"))
	if err != nil {
		return nil, fmt.Errorf("make stage metrics: %w", err)
	}
	out, err := meter.Int64Histogram("sluice.plan.stage.candidates", metric.WithUnit("{candidate}"),
		metric.WithDescription("candidates that a stage of a plan returned"))
	if err != nil {
		return nil, fmt.Errorf("make stage metrics: %w", err)
	}
	return &Engine{plans: plans, sources: sources, pack: stage.NewPack(sources), states: stage.NewStateCache(), tracer: otel.Tracer(scope), duration: duration, out: out}, nil
}

// Result is what a plan found, and what answering needs of it.
type Result struct {
	schema.SearchResult
	// Pool is what Select selects from, of a plan with feedback.
	Pool []byte
	// Skipped says that the question is to be answered from what the language model
	// knows: the Context is empty.
	Skipped bool
}

// With returns the engine with sources of one request's own in place of some of its. What it knows
// of the model pack and of collections they share.
func (e *Engine) With(change func(*retrieval.Sources)) *Engine {
	of := *e
	change(&of.sources)
	return &of
}

// Plan returns the plan of a query: the one that came with it, or that of a name, as Catalogue
// does.
func (e *Engine) Plan(q wire.SearchQuery) (plan.Plan, error) {
	if q.PlanText == "" {
		return e.plans.Plan(q.Plan)
	}
	p, err := plan.Parse([]byte(q.PlanText))
	p.Own = true
	return p, err
}

// Pack describes the model pack that plans run with.
func (e *Engine) Pack(ctx context.Context) (wire.ModelInfo, error) { return e.pack.Describe(ctx) }

// Check reports what is wrong with a query as a schema.FieldError on "plan",
// "text", "k", "documents", "filter" or a field of its own p, without
// running it, and returns the plan.
func (e *Engine) Check(q wire.SearchQuery) (plan.Plan, error) {
	p, err := e.Plan(q)
	if err != nil {
		return plan.Plan{}, err
	}
	switch {
	case strings.TrimSpace(q.Text) == "":
		return plan.Plan{}, schema.Invalid("text", "is empty")
	case !utf8.ValidString(q.Text):
		return plan.Plan{}, schema.Invalid("text", "is not valid UTF-8")
	case utf8.RuneCountInString(q.Text) > schema.MaxQuestion:
		return plan.Plan{}, schema.Invalid("text", "has over %d characters", schema.MaxQuestion)
	case q.K < 0 || q.K > stage.MaxK:
		return plan.Plan{}, schema.Invalid("k", "needs a whole number from 1 to %d", stage.MaxK)
	case q.Documents < 0 || q.Documents > maxDocuments:
		return plan.Plan{}, schema.Invalid("documents", "needs a whole number from 1 to %d", maxDocuments)
	}
	return p, q.Filter.Validate()
}

// Run runs the query's plan. It sees what the query's principal may see: in its
// tenant every live version without labels, and every labelled one of which the
// principal's groups hold a label. No scope widens that; an admin key without
// groups sees unlabelled documents only.
//
// The query's K says how many candidates are returned, and bounds the context;
// it does not change how deep stages look.
func (e *Engine) Run(ctx context.Context, q wire.SearchQuery) (Result, error) {
	p, err := e.Check(q)
	if err != nil {
		return Result{}, err
	}
	ctx, span := e.tracer.Start(ctx, "plan "+p.Label(), trace.WithAttributes(
		attribute.String("sluice.tenant", q.Principal.Tenant.String()), attribute.String("sluice.collection", q.Collection.String())))
	defer span.End()
	// What a language model was asked is not asked again because something has changed.
	calls := slices.ContainsFunc(p.Sequence(), func(s stage.Stage) bool { return s.Cost.Calls > 0 })
	result, err := e.run(ctx, p, q, !calls)
	if changed := new(*retrieval.ChangedError); errors.As(err, changed) {
		span.AddEvent("asked first")
		e.states.Forget(q)
		result, err = e.run(ctx, p, q, false)
	}
	for range attempts - 1 {
		var flipped *retrieval.GenerationError
		if !errors.As(err, &flipped) {
			break
		}
		span.AddEvent("began again", trace.WithAttributes(attribute.Int("sluice.generation", flipped.Live)))
		result, err = e.run(ctx, p, q, false)
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return Result{}, fmt.Errorf("plan %s: %w", p.Name, err)
	}
	return result, nil
}

// run runs a plan once, on one generation of the collection. It may assume that the
// collection has not changed since it was searched last; a *retrieval.ChangedError
// says that it has.
func (e *Engine) run(ctx context.Context, p plan.Plan, q wire.SearchQuery, assume bool) (Result, error) {
	t, err := stage.NewTask(ctx, e.sources, e.pack, e.states, assume, q, p.Sequence())
	if err != nil {
		return Result{}, err
	}
	var found stage.Candidates
	var ranking *stage.Candidates // set by the first stage that selects
	var pool []byte
	steps := append(make([]stage.Step, 0, len(p.Sequence())+1), t.SegmentationMismatch(p.Segmentation())...)
	for i, s := range p.Sequence() {
		if s.Kind.Selects && ranking == nil {
			all := found
			ranking = &all
		}
		if p.Feedback() != nil && p.Feedback().Stage == i {
			if pool, err = t.Reserve(found); err != nil {
				return Result{}, err
			}
		}
		if found, err = e.next(ctx, p, i, s, t, found, &steps); err != nil {
			return Result{}, err
		}
	}
	if ranking == nil {
		all := found
		ranking = &all
		found = found.First(stage.DefaultK)
	}
	out, err := t.Result(ctx, *ranking, found, slices.Concat(t.VectorsSkipped(), steps))
	if err == nil {
		err = t.Confirm(ctx)
	}
	out.Plan = p.Name
	return Result{SearchResult: out, Pool: pool, Skipped: t.Skipped}, err
}

// next runs a stage on what the one before gave.
func (e *Engine) next(ctx context.Context, p plan.Plan, i int, s stage.Stage, t *stage.Task, in stage.Candidates, steps *[]stage.Step) (stage.Candidates, error) {
	if e.sources.GiveWay != nil {
		e.sources.GiveWay(ctx)
	}
	ctx, span := e.tracer.Start(ctx, "stage "+s.Kind.Name)
	defer span.End()
	step, err := s.Run(ctx, t, i, in)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return stage.Candidates{}, fmt.Errorf("stage %s: %w", s.Kind.Name, err)
	}
	out := step.Found()
	labels := metric.WithAttributes(attribute.String("plan", p.Label()), attribute.String("stage", s.Kind.Name))
	e.duration.Record(ctx, step.Took.Seconds(), labels)
	e.out.Record(ctx, int64(out.Len()), labels)
	span.SetAttributes(attribute.Int("sluice.in", in.Len()), attribute.Int("sluice.out", out.Len()))
	*steps = append(*steps, step)
	return out, nil
}

// Select makes the plan's selection anew, of a Result's Pool and with another
// min_k: the stage that the plan's feedback names, and those behind it, run again.
// The result's trace has these alone. A *GenerationError says that the
// collection was rebuilt meanwhile, so that the pool's places are no more.
func (e *Engine) Select(ctx context.Context, q wire.SearchQuery, from []byte, minK int) (Result, error) {
	p, err := e.Check(q)
	if err != nil {
		return Result{}, err
	}
	if p.Feedback() == nil {
		return Result{}, schema.Invalid("plan", "%s has no feedback, so nothing is selected anew", p.Name)
	}
	t, err := stage.NewTask(ctx, e.sources, e.pack, e.states, false, q, p.Sequence())
	if err != nil {
		return Result{}, err
	}
	ranking, err := t.Restore(from)
	if err != nil {
		var rebuilt *retrieval.GenerationError
		if errors.As(err, &rebuilt) {
			return Result{}, err
		}
		return Result{}, fmt.Errorf("plan %s: %w", p.Name, err)
	}
	found := ranking
	var steps []stage.Step
	for i := p.Feedback().Stage; i < len(p.Sequence()); i++ {
		s := p.Sequence()[i]
		if i == p.Feedback().Stage {
			s = s.WithMinK(max(1, minK))
		}
		if found, err = e.next(ctx, p, i, s, t, found, &steps); err != nil {
			return Result{}, fmt.Errorf("plan %s: %w", p.Name, err)
		}
	}
	out, err := t.Result(ctx, ranking, found, steps)
	out.Plan = p.Name
	return Result{SearchResult: out}, err
}
