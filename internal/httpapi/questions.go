package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// InJob is the path parameter of routes under a job.
type InJob struct {
	Job uuid.UUID `path:"job" format:"uuid"`
}

type queryInput struct{ Body api.Query }

// resolve validates a query, and resolves its groups, which it sets in p, and its collection.
func (s *server) resolve(ctx context.Context, p *schema.Principal, q api.Query) (schema.Query, error) {
	if q.Groups != nil {
		if !p.Has(schema.ScopeImpersonate) {
			return schema.Query{}, &schema.RemoteError{Code: schema.CodeForbidden, Field: "body.groups",
				Message: "groups come from the key; only a key with the impersonate scope may pass them, in the body or in " + GroupsHeader}
		}
		if i := slices.IndexFunc(q.Groups, schema.Reserved); i >= 0 {
			return schema.Query{}, schema.Invalid(fmt.Sprintf("body.groups[%d]", i), "%q is reserved by the system", q.Groups[i])
		}
		p.Groups, p.Acting = q.Groups, true
		var err error
		if *p, err = s.permit(ctx, *p); err != nil {
			return schema.Query{}, err
		}
	}
	if err := q.Filter.Validate(); err != nil {
		return schema.Query{}, err
	}
	if err := checkChoices(q.Choices); err != nil {
		return schema.Query{}, err
	}
	if err := checkHistory("body.history", q.History, func(i int) string { return fmt.Sprintf("body.history[%d].content", i) }); err != nil {
		return schema.Query{}, err
	}
	if q.Plan != "" && q.PlanText != "" {
		return schema.Query{}, schema.Invalid("body.plan_text", "cannot be combined with the name of a plan; send one of the two")
	}
	in, collection, err := s.ofCollection(ctx, *p, q.Collection)
	if err != nil {
		return schema.Query{}, err
	}
	*p = in
	recordOf(ctx).asked(collection, q.Query)
	text, asked := q.Query, ""
	if s.Standalone != nil {
		if standalone, changed := s.Standalone(q.History, q.Query); changed {
			text, asked = standalone, q.Query
		}
	}
	return schema.Query{Collection: collection, Text: text, Asked: asked, Plan: q.Plan, PlanText: q.PlanText, Filter: q.Filter, K: q.K, Documents: q.Documents, Explain: q.Explain,
		Choices: q.Choices, Risk: q.Risk}, nil
}

// standalone returns the question as rewritten from a conversation; empty if it was not rewritten.
func standalone(q schema.Query) string {
	if q.Asked == "" {
		return ""
	}
	return q.Text
}

// checkHistory validates the conversation that comes with a question. field is its name, and place
// returns that of a turn.
func checkHistory(field string, history []schema.Turn, place func(turn int) string) error {
	if len(history) > schema.MaxTurns {
		return schema.Invalid(field, "has %d items; at most %d are allowed", len(history), schema.MaxTurns)
	}
	bytes := 0
	for i, t := range history {
		if err := schema.CheckCharacters(place(i), t.Content, 0, schema.MaxTurn); err != nil {
			return err
		}
		if bytes += len(t.Content); bytes > schema.MaxHistory {
			return schema.Invalid(field, "has more than %s together; leave out the oldest", schema.FormatBytes(schema.MaxHistory))
		}
	}
	return nil
}

func (s *server) routeQuestions() {
	tags := []string{"Questions"}
	crowded := []int{http.StatusTooManyRequests}
	route(s, huma.Operation{OperationID: "search", Metadata: queryBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/search", Summary: "Find passages", Tags: tags, Errors: crowded},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *queryInput) (*reply[api.SearchResult], error) {
			begin := time.Now()
			leave, err := s.openQuestions.acquire(p.Tenant, 0)
			if err != nil {
				return nil, err
			}
			defer leave()
			q, err := s.resolve(ctx, &p, in.Body)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, s.AskTime)
			defer cancel()
			found, err := s.search(ctx, p, q)
			if err != nil {
				return nil, err
			}
			for _, c := range found.Candidates {
				recordOf(ctx).showed(c.Document)
			}
			out := api.SearchResult{Query: q.Original(), Standalone: standalone(q), Plan: found.Plan, PlanNote: found.PlanNote, Passages: nonNil(found.Candidates), Context: nonNil(found.Context),
				Documents: found.Documents, Trace: nonNil(found.Trace), Millis: float64(time.Since(begin).Microseconds()) / 1000}
			return &reply[api.SearchResult]{out}, nil
		})
	s.routeAsk(tags)
	route(s, huma.Operation{OperationID: "list-questions", Method: http.MethodGet, Path: "/v1/questions", Summary: "List what was asked, newest first", Tags: tags,
		Description: "Questions of the key, and with the `admin` scope those of the tenant: jobs, and those whose answer was waited for. Without answers."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			Paging
			Collection string `query:"collection" maxLength:"128" doc:"Name or id: only questions to this collection."`
		}) (*reply[api.Page[schema.AskedQuestion]], error) {
			var collection uuid.UUID
			if in.Collection != "" {
				var err error
				if p, collection, err = s.ofCollection(ctx, p, in.Collection); err != nil {
					return nil, err
				}
			}
			items, next, err := s.Questions.AskedQuestions(ctx, p, collection, in.query())
			return list(queried(p, items, func(q schema.AskedQuestion) uuid.UUID { return q.Collection }), next, err, identity[schema.AskedQuestion])
		})
	route(s, huma.Operation{OperationID: "get-question", Method: http.MethodGet, Path: "/v1/questions/{question}", Summary: "Show a question and its answer", Tags: tags,
		Description: "As long as it is kept: an answer's `question_id` is a link that lasts."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			Question uuid.UUID `path:"question" format:"uuid"`
		}) (*reply[schema.AskedQuestion], error) {
			q, err := s.Questions.AskedQuestion(ctx, p, in.Question)
			recordOf(ctx).answered(q.Result)
			return replyTo(q, err)
		})
	route(s, huma.Operation{OperationID: "start-job", Metadata: queryBody.with(nil), Method: http.MethodPost, Path: "/v1/jobs", Summary: "Ask a question as a job", Tags: tags, DefaultStatus: http.StatusAccepted,
		Description: "The job survives crashes; ask for it by its id."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *queryInput) (*reply[schema.Job], error) {
			q, err := s.resolve(ctx, &p, in.Body)
			if err != nil {
				return nil, err
			}
			job, err := s.Questions.StartJob(ctx, p, q)
			if err == nil {
				recordOf(ctx).Target = job.ID.String()
			}
			return replyTo(job, err)
		})
	route(s, huma.Operation{OperationID: "list-jobs", Method: http.MethodGet, Path: "/v1/jobs", Summary: "List jobs, newest first", Tags: tags},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct{ Paging }) (*reply[api.Page[schema.Job]], error) {
			items, next, err := s.Questions.ListJobs(ctx, p, in.query())
			return list(queried(p, items, func(j schema.Job) uuid.UUID { return j.Collection }), next, err, identity[schema.Job])
		})
	route(s, huma.Operation{OperationID: "get-job", Method: http.MethodGet, Path: "/v1/jobs/{job}", Summary: "Show a job and its result", Tags: tags},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *InJob) (*reply[schema.Job], error) {
			job, err := s.Questions.Job(ctx, p, in.Job)
			recordOf(ctx).answered(job.Result)
			return replyTo(job, err)
		})
	s.routeFollowJob(tags)
	route(s, huma.Operation{OperationID: "cancel-job", Metadata: repeatRun.metadata(), Method: http.MethodPost, Path: "/v1/jobs/{job}/cancel", Summary: "Cancel a job", Tags: tags},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *InJob) (*reply[schema.Job], error) {
			return replyTo(s.Questions.CancelJob(ctx, p, in.Job))
		})
}
