// Package planchoice finds out which plan a collection is best searched with: it gathers
// questions whose answers are known (questions.go, make.go), asks them under every plan
// (measure.go), and has package choose propose one. All of it is done in steps (step.go)
// that leave what they did in the store, so that any worker can go on.
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
	Text string `json:"text,omitempty"` // YAML, of a tenant's own
}

// Task is a choice as who works on it sees it.
type Task struct {
	schema.PlanChoice
	// Principal is who asked for it: its questions are made of what that key may see, and
	// found with its groups.
	Principal schema.Principal
	Texts     []PlanText // of Plans, in their order
	Labelled  []schema.LabelledQuestion
	Current   string  // the collection's plan
	Alpha     float64 // chance of error
	StartedAt time.Time
}

// Gathered is a question that was found or made, with the documents that it is about: it
// goes with any of them.
type Gathered struct {
	schema.ChoiceQuestion
	DocumentIDs []uuid.UUID
}

// Figure is what one question gave under one plan.
type Figure struct {
	Number  int
	Plan    string
	Quality float64
	NDCG    *float64 // of the documents, at 10; nil: none is known to be right
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

// Store keeps choices. What writes gives schema.ErrLostLease when the choice has ended.
type Store interface {
	// BeginChoice makes a queued choice running, and returns it in whatever state.
	BeginChoice(ctx context.Context, in wire.PlanChoice) (Task, error)
	// SaveQuestions keeps the questions of a choice that has none, all at once.
	SaveQuestions(ctx context.Context, in wire.PlanChoice, questions []Gathered, notes []string) error
	// ChoiceQuestions lists questions behind a number, in the order of their numbers.
	// Those whose documents were deleted are gone.
	ChoiceQuestions(ctx context.Context, in wire.PlanChoice, after, limit int) ([]schema.ChoiceQuestion, error)
	// SaveFigures keeps what a question gave, and notes that it was asked.
	SaveFigures(ctx context.Context, in wire.PlanChoice, number int, figures []Figure) error
	// LeaveOut notes plans that cannot be measured, Drop those that are clearly worse.
	LeaveOut(ctx context.Context, in wire.PlanChoice, plans []schema.LeftOut) error
	DropPlans(ctx context.Context, in wire.PlanChoice, plans []string) error
	// Figures returns all figures by number of question.
	Figures(ctx context.Context, in wire.PlanChoice) ([]Figure, error)
	FinishChoice(ctx context.Context, in wire.PlanChoice, result schema.PlanVerdicts) error
	FailChoice(ctx context.Context, in wire.PlanChoice, reason string) error

	// SampleDocuments draws live documents that p may see, in an order that a seed makes.
	SampleDocuments(ctx context.Context, p schema.Principal, collection, seed uuid.UUID, limit int) ([]uuid.UUID, error)
	// SampleSections returns some sections of a document, likewise.
	SampleSections(ctx context.Context, p schema.Principal, document, seed uuid.UUID, limit int) ([]Sampled, error)
	// ImportedQuestions draws questions that were imported with their answers, likewise.
	ImportedQuestions(ctx context.Context, p schema.Principal, collection, seed uuid.UUID, limit int) ([]schema.LabelledQuestion, error)
	// DocumentsNamed returns the ids of those of the documents that are there and that p
	// may see.
	DocumentsNamed(ctx context.Context, p schema.Principal, collection uuid.UUID, externalIDs []string) (map[string]uuid.UUID, error)
	// Ratings lists ratings of answers, newest first.
	Ratings(ctx context.Context, p schema.Principal, q schema.RatingQuery) ([]schema.RatedAnswer, string, error)
}

// Searcher runs plans.
type Searcher interface {
	Search(ctx context.Context, q wire.SearchQuery) (schema.SearchResult, error)
}

// Reader finds answers in texts: the model server does.
type Reader interface {
	Info(ctx context.Context) (wire.ModelInfo, error)
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)
}

// Writer writes questions: the gateway to language models, within the tenant's limits.
type Writer interface {
	Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error)
}

// Chooser works on choices.
type Chooser struct {
	Store    Store
	Searcher Searcher
	Reader   func(tenant uuid.UUID) Reader
	Writer   Writer
	// Slice is how long one step goes on: between steps it is noted that the worker
	// lives, and the history is short.
	Slice time.Duration
}
