package retrieval

// This file bounds what a plan costs that comes with its query, or that a tenant keeps:
// each stage is bounded by itself, and here is what all of them cost together.

import (
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// What all stages of a tenant's own plan may cost together.
const (
	maxCalls    = 50    // of a language model, for one question
	maxReads    = 5_000 // pieces of text that models read; the reranker's count ten times
	maxSearches = 24    // components that look up candidates
)

// Affordable reports, as a FieldError that names the stage, that the plan costs more
// than one that isn't the server's may.
func (p Plan) Affordable() error {
	sum := cost{}
	if f := p.feedback; f != nil { // each round is an answer and its judgement
		sum.calls = 2 * f.Rounds
	}
	for i, s := range p.stages {
		c := s.cost
		sum.calls, sum.reads, sum.searches = sum.calls+c.calls, sum.reads+c.reads, sum.searches+c.searches
		for _, x := range []struct {
			what         string
			of, sum, max int
		}{{"calls of a language model", c.calls, sum.calls, maxCalls}, {"pieces of text that models read", c.reads, sum.reads, maxReads},
			{"look-ups", c.searches, sum.searches, maxSearches}} {
			if x.of > 0 && x.sum > x.max {
				return schema.Invalid(fmt.Sprintf("stages[%d].%s", i, s.kind.Name), "brings the plan to %d %s; at most %d are allowed", x.sum, x.what, x.max)
			}
		}
	}
	return nil
}
