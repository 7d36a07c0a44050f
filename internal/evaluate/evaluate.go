// Package evaluate measures retrieval plans on a dataset: it reads BEIR folders (dataset.go), runs
// every question under every plan (run.go), scores the results (ranking.go, answers.go,
// evidence.go), tests which differences are significant (bootstrap.go), and writes reports
// (summary.go, html.go).
//
// It depends neither on the server nor on its API: searching is behind the interface Searcher.
// docs/evaluation.md defines every measure.
package evaluate

import (
	"context"

	"github.com/sluice-rag/sluice/schema"
)

// Searcher runs one question under one plan.
type Searcher interface {
	// Search returns what the plan found; an empty plan is the default one. The ranking of
	// documents has depth entries, or fewer if the plan found fewer. The passages are the first of
	// the plan's ranking, as many as asked for, at most MaxPassages; 0: at least ten, and those of
	// the context.
	Search(ctx context.Context, plan string, q Topic, depth, passages int) (Found, error)
}

// MaxPassages is the most passages that a search returns.
const MaxPassages = 100

// Found is what a plan found for a question.
type Found struct {
	Plan      string   // its name
	Documents []string // external ids, best first; ranked by their best candidates
	Passages  []schema.Candidate
	// Context has indices into Passages: the passages that an answer would be made from, in reading
	// order.
	Context []int
	Stages  []schema.StageReport
	Millis  float64 // from question to result
}

// context returns the passages that an answer would be made from.
func (f *Found) context() []schema.Candidate {
	out := make([]schema.Candidate, 0, len(f.Context))
	for _, i := range f.Context {
		out = append(out, f.Passages[i])
	}
	return out
}
