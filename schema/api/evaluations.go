package api

import (
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// NewEvaluation stores an evaluation.
type NewEvaluation struct {
	Name    string                     `json:"name" minLength:"1" maxLength:"200"`
	Notes   string                     `json:"notes,omitempty" maxLength:"5000" doc:"What was tried."`
	RanAt   time.Time                  `json:"ran_at,omitzero" doc:"Now, when absent."`
	Reports []schema.EvaluationReport  `json:"reports" minItems:"1" maxItems:"50" doc:"As sluice eval --json writes them: an object is a list of one. A dataset's split comes once."`
	Figures []schema.EvaluationFigures `json:"figures,omitempty" maxItems:"50" doc:"Of each report's questions, or absent: with them two evaluations are compared question by question. 300,000 values at most."`
}

// NewRating is the caller's rating of an answer.
type NewRating struct {
	Rating  schema.Opinion `json:"rating" enum:"up,down"`
	Comment string         `json:"comment,omitempty" maxLength:"2000"`
}
