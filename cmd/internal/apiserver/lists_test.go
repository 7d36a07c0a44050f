package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestDocumentsAreListedAsAsked(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	for i, name := range []string{"b", "a", "C"} {
		w.post("/v1/collections/c/documents", map[string]any{"documents": []any{
			map[string]any{"external_id": name, "text": strings.Repeat("x", 3-i), "labels": []string{"of-" + strings.ToLower(name)}},
		}}, "").want(http.StatusOK, nil)
	}
	for query, want := range map[string]string{"": "baC", "sort=newest": "Cab", "sort=name": "Cab", "sort=largest": "baC", "sort=smallest": "Cab",
		"sort=state": "baC", "contains=c": "C", "label=of-a": "a", "label=of-a&state=failed": ""} {
		got, cursor := "", ""
		for {
			var page api.Page[schema.Document]
			w.do(http.MethodGet, "/v1/collections/c/documents?limit=2&"+query+"&cursor="+cursor, nil, "").want(http.StatusOK, &page)
			for _, d := range page.Items {
				got += d.ExternalID
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if got != want {
			t.Errorf("%s lists %s, want %s", query, got, want)
		}
	}
	w.do(http.MethodGet, "/v1/collections/c/documents?sort=colour", nil, "").want(http.StatusUnprocessableEntity, nil)
	w.do(http.MethodGet, "/v1/collections/c/documents?cursor=colour", nil, "").want(http.StatusUnprocessableEntity, nil)
	var page api.Page[schema.Collection]
	w.do(http.MethodGet, "/v1/collections", nil, "").want(http.StatusOK, &page)
	if c := page.Items[0]; c.Counts[schema.StateQueued] != 3 || c.Bytes != 6 || c.ChangedAt == nil {
		t.Errorf("the collection is listed as %+v", c)
	}
}

// TestAnAnswerIsFoundByItsQuestion: a synchronous answer has the id of its question.
func TestAnAnswerIsFoundByItsQuestion(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	w.answering(func(ctx context.Context, r wire.AskRequest) wire.AskReply {
		in := wire.QuestionInput{Tenant: r.Principal.Tenant, Question: r.Question, Attempt: 1}
		a := schema.Answer{Question: r.Text, Answer: "Five.", Supported: true, Plan: r.Plan}
		if _, err := w.asked.Begin(ctx, in); err != nil {
			t.Error(err)
		}
		if err := w.asked.SaveAnswer(ctx, in, a); err != nil {
			t.Error(err)
		}
		return wire.AskReply{Envelope: wire.Header(), Answer: &a}
	})
	asker := w.with(nil, schema.ScopeQuery)
	var a schema.Answer
	asker.post("/v1/ask", api.Query{Collection: "c", Query: "How many?"}, "").want(http.StatusOK, &a)
	path := fmt.Sprintf("/v1/questions/%s", a.ID)
	var q schema.AskedQuestion
	asker.do(http.MethodGet, path, nil, "").want(http.StatusOK, &q)
	if q.Async || q.Question != "How many?" || q.Result == nil || q.Result.Answer != "Five." || q.Result.ID != a.ID {
		t.Errorf("it is kept as %+v", q)
	}
	for _, list := range []string{"/v1/questions", "/v1/questions?collection=c"} {
		var page api.Page[schema.AskedQuestion]
		asker.do(http.MethodGet, list, nil, "").want(http.StatusOK, &page)
		if len(page.Items) != 1 || page.Items[0].ID != a.ID {
			t.Errorf("%s: %+v", list, page)
		}
	}
	w.do(http.MethodGet, path, nil, "").want(http.StatusOK, nil) // with an admin's key
	w.with(nil, schema.ScopeQuery).do(http.MethodGet, path, nil, "").want(http.StatusNotFound, nil)
	w.do(http.MethodGet, "/v1/questions?collection=none", nil, "").want(http.StatusNotFound, nil)
}
