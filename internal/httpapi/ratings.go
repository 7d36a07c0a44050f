package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Ratings stores users' ratings of answers. A key may rate the answers that it may see: to its own
// questions, and for an admin to any of the tenant.
type Ratings interface {
	Rate(ctx context.Context, p schema.Principal, question uuid.UUID, opinion schema.Opinion, comment string) (schema.Rating, error)
	Unrate(ctx context.Context, p schema.Principal, question uuid.UUID) error
	Ratings(ctx context.Context, p schema.Principal, q schema.RatingQuery) ([]schema.RatedAnswer, string, error)
}

// OfQuestion is the path parameter of routes of a question's rating.
type OfQuestion struct {
	Question uuid.UUID `path:"question" format:"uuid" doc:"A question that was answered, or a job."`
}

func (s *server) routeRatings() {
	tags := []string{"Ratings"}
	route(s, huma.Operation{OperationID: "rate-answer", Method: http.MethodPut, Path: "/v1/questions/{question}/rating", Summary: "Rate an answer", Tags: tags,
		Description: "Each key has one rating of an answer: this one from now on. A rating goes when a document is deleted that the answer was built on."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			OfQuestion
			Body api.NewRating
		}) (*reply[schema.Rating], error) {
			return replyTo(s.Ratings.Rate(ctx, p, in.Question, in.Body.Rating, in.Body.Comment))
		})
	route(s, huma.Operation{OperationID: "delete-rating", Method: http.MethodDelete, Path: "/v1/questions/{question}/rating", Summary: "Take a rating back", Tags: tags, DefaultStatus: http.StatusNoContent},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *OfQuestion) (*struct{}, error) {
			return nil, s.Ratings.Unrate(ctx, p, in.Question)
		})
	route(s, huma.Operation{OperationID: "list-ratings", Method: http.MethodGet, Path: "/v1/ratings", Summary: "List ratings with what they are of, newest first", Tags: tags,
		Description: "Those of the key, and with the `admin` scope those of the tenant."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			Paging
			Rating     schema.Opinion `query:"rating" enum:"up,down"`
			Collection string         `query:"collection" maxLength:"128" doc:"Name or id: only answers from this collection."`
			Question   uuid.UUID      `query:"question" format:"uuid" doc:"Only those of this question."`
			Own        bool           `query:"own" doc:"Only those of the key, also for an admin."`
		}) (*reply[api.Page[schema.RatedAnswer]], error) {
			q := schema.RatingQuery{Rating: in.Rating, Question: in.Question, Own: in.Own, PageQuery: in.query()}
			if in.Collection != "" {
				var err error
				if p, q.Collection, err = s.ofCollection(ctx, p, in.Collection); err != nil {
					return nil, err
				}
			}
			items, next, err := s.Ratings.Ratings(ctx, p, q)
			return list(queried(p, items, func(r schema.RatedAnswer) uuid.UUID { return r.Collection }), next, err, identity[schema.RatedAnswer])
		})
}
