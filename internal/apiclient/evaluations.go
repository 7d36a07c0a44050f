package apiclient

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func evaluationPath(id uuid.UUID) string { return "/v1/evaluations/" + id.String() }

// StoreEvaluation stores an evaluation and returns it without its reports.
func (c *Client) StoreEvaluation(ctx context.Context, n api.NewEvaluation) (schema.Evaluation, error) {
	return post[schema.Evaluation](ctx, c, "/v1/evaluations", n)
}

// Evaluations lists the tenant's evaluations without their reports. An empty dataset selects all.
func (c *Client) Evaluations(ctx context.Context, dataset string) iter.Seq2[schema.Evaluation, error] {
	query := url.Values{}
	if dataset != "" {
		query.Set("dataset", dataset)
	}
	return pages[schema.Evaluation](ctx, c, "/v1/evaluations", query)
}

// Evaluation returns an evaluation with its reports.
func (c *Client) Evaluation(ctx context.Context, id uuid.UUID) (schema.Evaluation, error) {
	return get[schema.Evaluation](ctx, c, evaluationPath(id), nil)
}

// CompareEvaluations compares an evaluation with another.
func (c *Client) CompareEvaluations(ctx context.Context, id, against uuid.UUID) (schema.EvaluationComparison, error) {
	return get[schema.EvaluationComparison](ctx, c, evaluationPath(id)+"/compare/"+against.String(), nil)
}

// DeleteEvaluation deletes an evaluation.
func (c *Client) DeleteEvaluation(ctx context.Context, id uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, evaluationPath(id), nil, nil, nil)
}

// RatingQuery selects ratings; empty fields select all.
type RatingQuery struct {
	Rating     schema.Opinion
	Collection string // name or id
	Own        bool   // only those of the key
}

// Ratings lists ratings with the rated answers.
func (c *Client) Ratings(ctx context.Context, q RatingQuery) iter.Seq2[schema.RatedAnswer, error] {
	query := url.Values{}
	if q.Rating != "" {
		query.Set("rating", string(q.Rating))
	}
	if q.Collection != "" {
		query.Set("collection", q.Collection)
	}
	if q.Own {
		query.Set("own", "true")
	}
	return pages[schema.RatedAnswer](ctx, c, "/v1/ratings", query)
}

// Rate stores the caller's rating of the answer to a question or job.
func (c *Client) Rate(ctx context.Context, question uuid.UUID, n api.NewRating) (schema.Rating, error) {
	var out schema.Rating
	return out, c.json(ctx, http.MethodPut, "/v1/questions/"+question.String()+"/rating", nil, n, &out)
}

// Unrate deletes the caller's rating of an answer.
func (c *Client) Unrate(ctx context.Context, question uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, "/v1/questions/"+question.String()+"/rating", nil, nil, nil)
}
