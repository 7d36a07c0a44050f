package httpapi

// What is learnt about the answering language model: what it knows, and which texts help it.

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Preferences learns what language models know and which texts they prefer.
type Preferences interface {
	// Label asks the language model a question with known answers.
	Label(ctx context.Context, p schema.Principal, collection uuid.UUID, l schema.Labelling) (schema.Labelled, error)
	// Learn trains a head of llm_prefer from the labels.
	Learn(ctx context.Context, p schema.Principal, collection uuid.UUID, model string, seed uint64) (schema.Preference, error)
	LearntPreferences(ctx context.Context, p schema.Principal, collection uuid.UUID) ([]schema.Preference, error)
	ForgetPreferences(ctx context.Context, p schema.Principal, collection uuid.UUID) error
}

func (s *server) routePreferences() {
	const path = "/v1/collections/{collection}/preferences"
	tags := []string{"Preferences"}
	route(s, huma.Operation{OperationID: "label-question", Metadata: queryBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/collections/{collection}/labels", Tags: tags,
		Summary: "Ask the language model a question whose answers are known", Errors: []int{http.StatusTooManyRequests},
		Description: "Without retrieval, which teaches plans that may skip it what the model knows, and with one text at a time, which " +
			"labels texts for llm_prefer (FIT-RAG). What is known already is not asked again: " +
			"the same request goes on where another one ended."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.LabelledQuestion
		}) (*reply[schema.Labelled], error) {
			leave, err := s.openQuestions.acquire(p.Tenant, 0)
			if err != nil {
				return nil, err
			}
			defer leave()
			ctx, cancel := context.WithTimeout(ctx, s.AskTime)
			defer cancel()
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Preferences.Label(ctx, p, id, schema.Labelling{LabelledQuestion: schema.LabelledQuestion{Question: in.Body.Question, Answers: in.Body.Answers},
				Texts: in.Body.Texts, Calls: in.Body.Calls, Cost: in.Body.Cost}))
		})
	route(s, huma.Operation{OperationID: "learn-preference", Metadata: repeatRun.metadata(), Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Learn which texts the language model prefers",
		Description: "From the texts that were labelled. Plans that rank by llm_prefer use it from then on where that model answers, " +
			"unless it tells worse than the pack's own reader on questions that were held out."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.NewPreference
		}) (*reply[schema.Preference], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.Preferences.Learn(ctx, p, id, in.Body.Model, cmp.Or(in.Body.Seed, 1)))
		})
	route(s, huma.Operation{OperationID: "list-preferences", Method: http.MethodGet, Path: path, Tags: tags, Summary: "List what was learnt of language models' preferences"},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InCollection) (*reply[api.Page[schema.Preference]], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			items, err := s.Preferences.LearntPreferences(ctx, p, id)
			return list(items, "", err, identity[schema.Preference])
		})
	route(s, huma.Operation{OperationID: "forget-preferences", Method: http.MethodDelete, Path: path, Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Forget what was learnt of language models from labelled questions", Description: "With the labels, and with what the questions taught: llm_prefer is that of the pack's own reader again."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InCollection) (*struct{}, error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return nil, s.Preferences.ForgetPreferences(ctx, p, id)
		})
}
