package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Judge judges answers with the language model.
type Judge interface {
	// JudgeAnswer judges an answer by reference answers. A dry run calls no model, and names the
	// model that would judge.
	JudgeAnswer(ctx context.Context, p schema.Principal, a schema.AnswerToJudge, dryRun bool) (schema.Judgement, error)
}

func (s *server) routeJudgements() {
	route(s, huma.Operation{OperationID: "judge-answer", Metadata: queryBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/judgements", Tags: []string{"Evaluations"},
		Summary: "Ask the language model whether an answer is right", Errors: []int{http.StatusTooManyRequests},
		Description: "By right answers, without retrieval; what `sluice eval --judge` sends. It counts to the tenant's budget. " +
			"Without a language model it is refused."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct{ Body api.AnswerToJudge }) (*reply[schema.Judgement], error) {
			leave, err := s.openQuestions.acquire(p.Tenant, 0)
			if err != nil {
				return nil, err
			}
			defer leave()
			ctx, cancel := context.WithTimeout(ctx, s.AskTime)
			defer cancel()
			return replyTo(s.Judge.JudgeAnswer(ctx, p, schema.AnswerToJudge{Question: in.Body.Question, References: in.Body.References, Answer: in.Body.Answer}, in.Body.DryRun))
		})
}
