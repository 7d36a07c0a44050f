// Package retrieval finds the passages that may answer a question. It reads
// plans (plan.go) and runs them (this file): every stage takes candidates and
// gives candidates, and reports what went in, what came out, why, and how long
// it took. That report is the explanation of a search.
//
// A stage has a file of its own. Models and the index are behind the small
// interfaces that the stages need.
package retrieval

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/retrieval"

// Model is what stages ask of the model server.
type Model interface {
	// Encode returns a unit vector per text, a zero vector for a text without
	// a word that the model knows, and the name of the vectors' space.
	Encode(ctx context.Context, lane wire.Lane, texts []string) (wire.Vectors, string, error)
}

// Index is what stages ask of the store.
type Index interface {
	// Nearest returns the q.K passages nearest to q.Vector, best first, equal
	// ones by passage id, among the passages that are live, that the principal
	// may see and that match the filter; it is exact. An unknown collection
	// gives schema.ErrNotFound, one without vectors none, one whose vectors
	// are of another space a *SpaceError.
	Nearest(ctx context.Context, q NearestQuery) ([]Hit, error)
}

// NearestQuery asks for the passages nearest to a vector.
type NearestQuery struct {
	Principal  schema.Principal
	Collection uuid.UUID
	Space      string // of Vector
	Vector     []float32
	Filter     schema.Filter
	K          int
}

// Hit is a passage that Nearest found, with its section.
type Hit struct {
	Passage    schema.Passage
	Section    schema.Section
	Version    uuid.UUID
	Document   uuid.UUID
	ExternalID string
	Title      string
	Similarity float64 // inner product of unit vectors, in [-1, 1] but for rounding
}

// SpaceError says that the model server makes vectors of one space and the
// collection holds vectors of another, so they cannot be compared.
type SpaceError struct {
	Collection uuid.UUID
	Stored     string
	Served     string
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("collection %s holds vectors of space %q but the model server serves %q: start gpu-segmenter with the model pack of %q, "+
		"or ingest the documents into a new collection", e.Collection, e.Stored, e.Served, e.Stored)
}

// Unwrap makes errors.Is(err, schema.ErrConflict) true.
func (e *SpaceError) Unwrap() error { return schema.ErrConflict }

// Bounds of a query.
const (
	MaxK        = 100  // passages asked for
	MaxQuestion = 4000 // characters
)

// Engine runs plans. It is safe for concurrent use.
type Engine struct {
	plans    *Catalogue
	model    Model
	index    Index
	tracer   trace.Tracer
	duration metric.Float64Histogram
	out      metric.Int64Histogram
}

// NewEngine makes an Engine of its parts.
func NewEngine(plans *Catalogue, model Model, index Index) (*Engine, error) {
	meter := otel.Meter(scope)
	duration, err := meter.Float64Histogram("sluice.plan.stage.duration", metric.WithUnit("s"),
		metric.WithDescription("time that a stage of a plan took"))
	if err != nil {
		return nil, fmt.Errorf("make stage metrics: %w", err)
	}
	out, err := meter.Int64Histogram("sluice.plan.stage.candidates", metric.WithUnit("{candidate}"),
		metric.WithDescription("candidates that a stage of a plan gave"))
	if err != nil {
		return nil, fmt.Errorf("make stage metrics: %w", err)
	}
	return &Engine{plans: plans, model: model, index: index, tracer: otel.Tracer(scope), duration: duration, out: out}, nil
}

// Result is what a plan found.
type Result struct {
	Plan       string
	Candidates []schema.Candidate // best first
	Trace      []schema.StageReport
}

// Check reports what is wrong with a query as a schema.FieldError on "plan",
// "text", "k" or "filter", without running it, and returns the plan's name.
func (e *Engine) Check(q wire.Query) (plan string, err error) {
	p, err := e.check(q)
	return p.Name, err
}

func (e *Engine) check(q wire.Query) (Plan, error) {
	plan, err := e.plans.Plan(q.Plan)
	if err != nil {
		return Plan{}, err
	}
	switch {
	case strings.TrimSpace(q.Text) == "":
		return Plan{}, schema.Invalid("text", "is empty")
	case !utf8.ValidString(q.Text):
		return Plan{}, schema.Invalid("text", "is not valid UTF-8")
	case utf8.RuneCountInString(q.Text) > MaxQuestion:
		return Plan{}, schema.Invalid("text", "has over %d characters", MaxQuestion)
	case q.K < 0 || q.K > MaxK:
		return Plan{}, schema.Invalid("k", "needs a whole number from 1 to %d", MaxK)
	}
	return plan, q.Filter.Validate()
}

// Run runs the query's plan. It sees what the query's principal may see: in its
// tenant every live version without labels, and every labelled one of which the
// principal's groups hold a label. No scope widens that; an admin key without
// groups sees unlabelled documents only.
func (e *Engine) Run(ctx context.Context, q wire.Query) (Result, error) {
	plan, err := e.check(q)
	if err != nil {
		return Result{}, err
	}
	ctx, span := e.tracer.Start(ctx, "plan "+plan.Name, trace.WithAttributes(
		attribute.String("sluice.tenant", q.Principal.Tenant.String()), attribute.String("sluice.collection", q.Collection.String())))
	defer span.End()
	result := Result{Plan: plan.Name}
	t := &task{query: q, model: e.model, index: e.index}
	for _, s := range plan.stages {
		report, err := e.runStage(ctx, plan, s, t, &result.Candidates)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
			return Result{}, fmt.Errorf("stage %s of plan %s: %w", s.name(), plan.Name, err)
		}
		result.Trace = append(result.Trace, report)
	}
	return result, nil
}

func (e *Engine) runStage(ctx context.Context, plan Plan, s stage, t *task, candidates *[]schema.Candidate) (schema.StageReport, error) {
	ctx, span := e.tracer.Start(ctx, "stage "+s.name())
	defer span.End()
	start := time.Now()
	out, why, err := s.run(ctx, t, *candidates)
	took := time.Since(start)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return schema.StageReport{}, err
	}
	labels := metric.WithAttributes(attribute.String("plan", plan.Name), attribute.String("stage", s.name()))
	e.duration.Record(ctx, took.Seconds(), labels)
	e.out.Record(ctx, int64(len(out)), labels)
	span.SetAttributes(attribute.Int("sluice.in", len(*candidates)), attribute.Int("sluice.out", len(out)))
	report := schema.StageReport{Stage: s.name(), In: len(*candidates), Out: len(out), Millis: millis(took), Why: why}
	*candidates = out
	return report, nil
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// task is one run of a plan.
type task struct {
	query wire.Query
	model Model
	index Index
}

// stage is one step of a plan: from candidates to candidates, with a sentence
// that says why.
type stage interface {
	name() string
	run(ctx context.Context, t *task, in []schema.Candidate) (out []schema.Candidate, why string, err error)
}
