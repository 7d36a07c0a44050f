package retrieval

// This file is what a plan says of judging answers (SAGE, section VI), and how its
// selection is made anew from what the first round found: from the candidates that
// came to the stage gradient, with another min_k. Nothing is searched again.

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Feedback says how the answers of a plan are judged.
type Feedback struct {
	Least  int // the score, from 1 to 10, from which an answer is good enough
	Rounds int // of selection and generation, at most
	MinK   int // of the first round
	stage  int // that selects anew
}

// Feedback is how the plan has its answers judged; nil: not at all.
func (p Plan) Feedback() *Feedback { return p.feedback }

// readFeedback reads a plan's section "feedback":
//
//	feedback: {least: 9, rounds: 3, of: gradient}
//
// SAGE's loop (section VI-A, Figure 6): an answer is given a score from 1 to 10, and
// is good enough from least on. Otherwise min_k of the stage that of names becomes one
// more or one less, as the judgement says, and selection and generation run again, in
// at most so many rounds.
func readFeedback(top *parameters) *Feedback {
	const name = "feedback"
	node := top.take(name)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		top.fail(name, "needs fields with values, for example {least: 9, rounds: 3, of: gradient}")
		return nil
	}
	p, err := readParameters(name, node)
	if err != nil {
		top.err = err
		return nil
	}
	f := Feedback{Least: p.whole("least", 9, 1, 10), Rounds: p.whole("rounds", 3, 1, 10)}
	p.choice("of", "gradient")
	if err := p.close(); err != nil && top.err == nil {
		top.err = err
	}
	top.given[name] = p.given
	return &f
}

// adjusts finds the stage whose min_k the feedback changes.
func (f *Feedback) adjusts(stages []Stage) error {
	for i, s := range stages {
		if s.withMinK != nil {
			f.stage, f.MinK = i, s.minK
			return nil
		}
	}
	return schema.Invalid("feedback.of", "is gradient, and the plan has no such stage")
}

// reserve is what came to the stage that selects, to be selected from again.
type reserve struct {
	Generation int         `json:"generation"`
	Text       string      `json:"text"` // the question as it was worded then
	Unit       schema.Unit `json:"unit"`
	Items      []pooled    `json:"items"`
}

// pooled is an item as it is stored.
type pooled struct {
	Ref     lexical.Ref        `json:"ref,omitzero"`
	Cluster uuid.UUID          `json:"cluster,omitzero"`
	With    lexical.Ref        `json:"with,omitzero"`
	From    uuid.UUID          `json:"from,omitzero"`
	Best    *lexical.Ref       `json:"best,omitempty"`
	Shows   []pooledPlace      `json:"shows,omitempty"`
	Score   float64            `json:"score"`
	Scores  map[string]float64 `json:"scores,omitempty"`
	Origin  string             `json:"origin,omitempty"`
}

type pooledPlace struct {
	Ref   lexical.Ref `json:"ref"`
	Start int         `json:"start,omitempty"`
	End   int         `json:"end,omitempty"`
}

// pooled writes down what came to the stage.
func (t *task) pooled(in candidates) ([]byte, error) {
	p := reserve{Generation: t.place.Generation, Text: t.query.Text, Unit: in.unit, Items: make([]pooled, len(in.items))}
	for i, c := range in.items {
		p.Items[i] = pooled{Ref: c.ref, Cluster: c.cluster, With: c.with, From: c.from, Best: c.best, Score: c.score, Scores: c.scores, Origin: c.origin}
		for _, s := range c.shows {
			p.Items[i].Shows = append(p.Items[i].Shows, pooledPlace{Ref: s.ref, Start: s.start, End: s.end})
		}
	}
	out, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write down what is selected from: %w", err)
	}
	return out, nil
}

func (p reserve) candidates() candidates {
	out := candidates{unit: p.Unit, items: make([]item, len(p.Items))}
	for i, c := range p.Items {
		out.items[i] = item{key: key{ref: c.Ref, cluster: c.Cluster, with: c.With}, from: c.From, best: c.Best, score: c.Score, scores: c.Scores, origin: c.Origin}
		for _, s := range c.Shows {
			out.items[i].shows = append(out.items[i].shows, extent{ref: s.Ref, start: s.Start, end: s.End})
		}
	}
	return out
}

// Select makes the plan's selection anew, of a Result's Pool and with another
// min_k: the stage that the plan's feedback names, and those behind it, run again.
// The result's trace has these alone. A *GenerationError says that the
// collection was rebuilt meanwhile, so that the pool's places are no more.
func (e *Engine) Select(ctx context.Context, q wire.SearchQuery, from []byte, minK int) (Result, error) {
	plan, err := e.Check(q)
	if err != nil {
		return Result{}, err
	}
	if plan.feedback == nil {
		return Result{}, schema.Invalid("plan", "%s has no feedback, so nothing is selected anew", plan.Name)
	}
	var p reserve
	if err := json.Unmarshal(from, &p); err != nil {
		return Result{}, fmt.Errorf("plan %s: read what is selected from: %w", plan.Name, err)
	}
	t, err := newTask(ctx, e.sources, e.pack, q)
	if err != nil {
		return Result{}, err
	}
	if t.place.Generation != p.Generation {
		return Result{}, &GenerationError{Collection: q.Collection, Asked: p.Generation, Live: t.place.Generation}
	}
	t.query.Text = p.Text
	found := p.candidates()
	ranking := found
	var steps []step
	for i := plan.feedback.stage; i < len(plan.stages); i++ {
		s := plan.stages[i]
		if i == plan.feedback.stage {
			kind := s.kind
			s = s.withMinK(max(1, minK))
			s.kind = kind
		}
		t.stage = i
		if err := e.next(ctx, plan, s, t, &found, &steps); err != nil {
			return Result{}, fmt.Errorf("plan %s: %w", plan.Name, err)
		}
	}
	return t.result(ctx, plan, ranking, found.items, steps)
}
