package plan

// This file limits the cost of plans that come with a query or that a tenant stores. Each stage has
// limits of its own; these are the limits of all stages together.

import (
	"fmt"

	"github.com/sluice-rag/sluice/internal/retrieval/stage"
	"github.com/sluice-rag/sluice/schema"
)

// Limits of all stages of a tenant's own plan together.
const (
	maxCalls    = 50    // calls of a language model, for one question
	maxReads    = 5_000 // texts that models read; each text for the reranker counts as ten
	maxSearches = 24    // searches for candidates by a component
)

// Affordable returns a FieldError, naming the stage, if the plan costs more than plans that are not
// the server's may cost.
func (p Plan) Affordable() error {
	sum := stage.Cost{}
	if f := p.feedback; f != nil { // each round is an answer and a judgement
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
