// Package planchoice finds out which plan searches a collection best. It gathers questions with
// known answers (questions.go, make.go), asks them under every plan (measure.go), and has package
// choose propose a plan. It works in steps (step.go) whose results are stored, so that any worker
// can continue.
//
// docs/choosing-plans.md says what is measured and why.
package planchoice

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// PlanText is a plan to measure.
type PlanText struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // YAML, of a tenant's own plan
}

// Task is a choice, with what a worker needs.
type Task struct {
	schema.PlanChoice
	// Principal requested the choice. The questions are made from what its key may see, and
	// searched with its groups.
	Principal schema.Principal
	Texts     []PlanText // of Plans, in the same order
	Labelled  []schema.LabelledQuestion
	Current   string  // the collection's plan
	Alpha     float64 // chance of error
	StartedAt time.Time
}

// Gathered is a question that was found or made, with the documents that it is about. It is deleted
// with any of them.
type Gathered struct {
	schema.ChoiceQuestion
	DocumentIDs []uuid.UUID
}

// Figure is the result of one question under one plan.
type Figure struct {
	Number  int
	Plan    string
	Quality float64
	NDCG    *float64 // of the documents, at 10; nil: no right document is known
	Tokens  float64
	Millis  float64
	Dollars *float64
}

// Sampled is a section of a live document.
type Sampled struct {
	Document   uuid.UUID
	ExternalID string
	Title      string
	Section    schema.Section
}

// Store stores choices. Its writing methods return schema.ErrLostLease if the choice has ended.
type Store interface {
	// BeginChoice sets a queued choice to running, and returns it in any state.
	BeginChoice(ctx context.Context, in wire.PlanChoice) (Task, error)
	// SaveQuestions stores all questions of a choice that has none, except those from a document
	// that was deleted meanwhile.
	SaveQuestions(ctx context.Context, in wire.PlanChoice, questions []Gathered, notes []string) error
	// ChoiceQuestions lists questions with numbers above after, in order. Questions whose documents
	// were deleted are left out.
	ChoiceQuestions(ctx context.Context, in wire.PlanChoice, after, limit int) ([]schema.ChoiceQuestion, error)
	// SaveFigures stores the results of a question, and that it was asked.
	SaveFigures(ctx context.Context, in wire.PlanChoice, number int, figures []Figure) error
	// LeaveOut records plans that cannot be measured, DropPlans those that are clearly worse.
	LeaveOut(ctx context.Context, in wire.PlanChoice, plans []schema.LeftOut) error
	DropPlans(ctx context.Context, in wire.PlanChoice, plans []string) error
	// Figures returns all results, sorted by question number.
	Figures(ctx context.Context, in wire.PlanChoice) ([]Figure, error)
	FinishChoice(ctx context.Context, in wire.PlanChoice, result schema.PlanVerdicts) error
	FailChoice(ctx context.Context, in wire.PlanChoice, reason string) error

	// SampleDocuments draws live documents that p may see, in an order determined by seed.
	SampleDocuments(ctx context.Context, p schema.Principal, collection, seed uuid.UUID, limit int) ([]uuid.UUID, error)
	// SampleSections draws sections of a document in the same way.
	SampleSections(ctx context.Context, p schema.Principal, document, seed uuid.UUID, limit int) ([]Sampled, error)
	// ImportedQuestions draws imported questions with answers in the same way.
	ImportedQuestions(ctx context.Context, p schema.Principal, collection, seed uuid.UUID, limit int) ([]schema.LabelledQuestion, error)
	// DocumentsNamed returns the ids of the documents that exist and that p may see.
	DocumentsNamed(ctx context.Context, p schema.Principal, collection uuid.UUID, externalIDs []string) (map[string]uuid.UUID, error)
	// Ratings lists ratings of answers, newest first.
	Ratings(ctx context.Context, p schema.Principal, q schema.RatingQuery) ([]schema.RatedAnswer, string, error)
}

// Searcher runs plans.
type Searcher interface {
	Search(ctx context.Context, q wire.SearchQuery) (schema.SearchResult, error)
}

// Reader finds answers in texts. The model server implements it.
type Reader interface {
	Info(ctx context.Context) (wire.ModelInfo, error)
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
}

// Writer writes questions. It is the gateway to language models, within the tenant's limits.
type Writer interface {
	Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error)
}

// Chooser processes choices.
type Chooser struct {
	Store    Store
	Searcher Searcher
	Reader   func(tenant uuid.UUID) Reader
	Writer   Writer
	// Slice is how long one step lasts. Between steps the worker sends a heartbeat, and the
	// workflow's history stays short.
	Slice time.Duration
}
