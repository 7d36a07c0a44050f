package plan

// This file bounds what a plan costs that comes with its query, or that a tenant keeps:
// each stage is bounded by itself, and here is what all of them cost together.

import (
	"fmt"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
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
	sum := stage.Cost{}
	if f := p.feedback; f != nil { // each round is an answer and its judgement
		sum.Calls = 2 * f.Rounds
	}
	for i, s := range p.stages {
		c := s.Cost
		sum.Calls, sum.Reads, sum.Searches = sum.Calls+c.Calls, sum.Reads+c.Reads, sum.Searches+c.Searches
		for _, x := range []struct {
			what         string
			of, sum, max int
		}{{"calls of a language model", c.Calls, sum.Calls, maxCalls}, {"pieces of text that models read", c.Reads, sum.Reads, maxReads},
			{"look-ups", c.Searches, sum.Searches, maxSearches}} {
			if x.of > 0 && x.sum > x.max {
				return schema.Invalid(fmt.Sprintf("stages[%d].%s", i, s.Kind.Name), "brings the plan to %d %s; at most %d are allowed", x.sum, x.what, x.max)
			}
		}
	}
	return nil
}
