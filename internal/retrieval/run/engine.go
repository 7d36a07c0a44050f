// Package run runs plans. Every stage takes candidates and returns candidates, and reports what
// went in, what came out, why, and how long it took. That report explains a search.
//
// A plan has two results: the ranking and the context. The ranking is what the stages before the
// first selecting stage (gradient, limit, order) find. The context is what the selecting stages
// choose from it; the answer is made from that.
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
	maxDocuments = 1000 // most documents that a query may ask for
	// attempts is how often a plan is started: it starts again if a rebuilt generation goes live
	// while it runs.
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

// Result is what a plan found, and what is needed to answer from it.
type Result struct {
	schema.SearchResult
	// Pool is the input of Select, for a plan with feedback.
	Pool []byte
	// Skipped is set if the question is to be answered from what the language model knows. The
	// Context is then empty.
	Skipped bool
}

// With returns a copy of the engine with some sources replaced for one request. The copies share
// what is cached about the model pack and the collections.
func (e *Engine) With(change func(*retrieval.Sources)) *Engine {
	of := *e
	change(&of.sources)
	return &of
}

// Plan returns the plan of a query: the one that came with it, or the named one, as Catalogue does.
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

// Check validates a query without running it, and returns its plan. Errors are schema.FieldErrors
// on "plan", "text", "k", "documents", "filter" or a field of the query's own plan.
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

// Run runs the query's plan. It finds what the query's principal may see: in its tenant, every live
// version without labels, and every labelled version whose labels include one of the principal's
// groups. No scope widens that; an admin key without groups sees only unlabelled documents.
//
// The query's K is the number of candidates to return, and limits the context. It does not change
// how many candidates the stages look at.
func (e *Engine) Run(ctx context.Context, q wire.SearchQuery) (Result, error) {
	p, err := e.Check(q)
	if err != nil {
		return Result{}, err
	}
	ctx, span := e.tracer.Start(ctx, "plan "+p.Label(), trace.WithAttributes(
		attribute.String("sluice.tenant", q.Principal.Tenant.String()), attribute.String("sluice.collection", q.Collection.String())))
	defer span.End()
	// Plans with calls of a language model do not assume: a changed collection would repeat the
	// calls.
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

// run runs a plan once, on one generation of the collection. With assume it may use the cached
// state of the collection; if that is out of date, it returns a *retrieval.ChangedError.
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

// next runs a stage on the output of the previous one.
func (e *Engine) next(ctx context.Context, p plan.Plan, i int, s stage.Stage, t *stage.Task, in stage.Candidates, steps *[]stage.Step) (stage.Candidates, error) {
	if e.sources.Yield != nil {
		e.sources.Yield(ctx)
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

// Select repeats the plan's selection on a Result's Pool with another min_k: it runs the stage that
// the plan's feedback names, and those after it. The result's trace has only these stages. It
// returns a *GenerationError if the collection was rebuilt in between, since the pool's refs are
// then invalid.
func (e *Engine) Select(ctx context.Context, q wire.SearchQuery, from []byte, minK int) (Result, error) {
	p, err := e.Check(q)
	if err != nil {
		return Result{}, err
	}
	if p.Feedback() == nil {
		return Result{}, schema.Invalid("plan", "%s has no feedback, so nothing is selected again", p.Name)
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
