package apiserver_test

// This file stores evaluations and rates answers through the API.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// stored returns an evaluation of a plan on a number of questions. For the first hits of them, a
// relevant document is ranked first.
func stored(name string, questions, hits int) api.NewEvaluation {
	figures := schema.EvaluationFigures{Queries: []string{}, Plans: []schema.PlanFigures{{Plan: "naive", Metrics: map[string][]*float64{}}}}
	for i := range questions {
		hit := 0.0
		if i < hits {
			hit = 1
		}
		figures.Queries = append(figures.Queries, fmt.Sprint("q", i))
		figures.Plans[0].Metrics["hit@1"] = append(figures.Plans[0].Metrics["hit@1"], &hit)
	}
	plan := schema.EvaluatedPlan{Plan: "naive", Metrics: map[string]float64{"hit@1": float64(hits) / float64(questions)}, Intervals: map[string]schema.Interval{}, Stages: []schema.StageLatency{}}
	return api.NewEvaluation{Name: name, Reports: []schema.EvaluationReport{{Dataset: "qed", Split: "test", Documents: 9, Queries: questions, Parallel: 1,
		Plans: []schema.EvaluatedPlan{plan}, Differences: []schema.EvaluationDifference{}}}, Figures: []schema.EvaluationFigures{figures}}
}

func TestEvaluationsAreStoredShownAndCompared(t *testing.T) {
	w := newWorld(t)
	c, err := apiclient.New(w.url, w.key)
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.StoreEvaluation(t.Context(), stored("before", 100, 40))
	if err != nil {
		t.Fatal(err)
	}
	n := stored("after", 100, 70)
	n.Figures[0].Plans[0].Metrics["hit@1"][99] = nil // no value
	after, err := c.StoreEvaluation(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	compared, err := c.CompareEvaluations(t.Context(), after.ID, before.ID)
	if err != nil || len(compared.Datasets) != 1 || compared.Evaluation.Name != "after" || compared.Against.Name != "before" || compared.Evaluation.Reports != nil {
		t.Fatalf("compared %+v, %v", compared, err)
	}
	for _, m := range compared.Datasets[0].Plans[0].Metrics {
		if m.Metric == "hit@1" && (m.Questions != 99 || m.Difference <= 0.3 || m.Interval == nil || m.Interval.Low <= 0 || *m.P > 0.01) {
			t.Errorf("hit@1 was compared as %+v", m)
		}
	}
	reader := w.with(nil, schema.ScopeQuery)
	var page api.Page[schema.Evaluation]
	reader.do(http.MethodGet, "/v1/evaluations?limit=1&dataset=qed", nil, "").want(http.StatusOK, &page)
	if len(page.Items) != 1 || page.Items[0].ID != after.ID || page.Next == "" || page.Items[0].Reports != nil {
		t.Errorf("the first page is %+v", page)
	}
	var shown schema.Evaluation
	reader.do(http.MethodGet, "/v1/evaluations/"+before.ID.String(), nil, "").want(http.StatusOK, &shown)
	if len(shown.Reports) != 1 || shown.Reports[0].Plans[0].Metrics["hit@1"] != 0.4 {
		t.Errorf("shown is %+v", shown)
	}
	reader.post("/v1/evaluations", stored("mine", 1, 1), "").want(http.StatusForbidden, nil)
	reader.do(http.MethodDelete, "/v1/evaluations/"+before.ID.String(), nil, "").want(http.StatusForbidden, nil)
	if err := c.DeleteEvaluation(t.Context(), before.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.CompareEvaluations(t.Context(), after.ID, before.ID); !apiclient.IsStatus(err, http.StatusNotFound) || !strings.Contains(err.Error(), before.ID.String()) {
		t.Errorf("compared with one that is gone: %v", err)
	}
}

// Errors name the field as it was sent.
func TestEvaluationsThatAreWrong(t *testing.T) {
	w := newWorld(t)
	good, err := json.Marshal(stored("n", 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	w.do(http.MethodPost, "/v1/evaluations", strings.NewReader(string(good)), "").want(http.StatusCreated, nil)
	for _, c := range []struct{ from, to, field string }{
		{`"name":"n"`, `"name":""`, "body.name"},
		{`"reports":[`, `"reports":{},"x":[`, "body.reports"},
		{`"queries":2`, `"queries":-2`, "body.reports[0].queries"},
		{`"hit@1":0.5`, `"hit@1":"half"`, "body.reports[0].plans[0].metrics"},
		{`"hit@1":0.5`, `"Hit at 1":0.5`, "reports[0].plans[0].metrics"},
		{`"queries":["q0","q1"]`, `"queries":["q0","q0"]`, "figures[0].queries[1]"},
		{`"dataset":"qed"`, `"dataset":"qed","surprise":1`, "body.reports[0]"},
		{`"name":"n"`, `"name":"n","ran_at":"yesterday"`, "body.ran_at"},
	} {
		if !strings.Contains(string(good), c.from) {
			t.Fatalf("%s is not in %s", c.from, good)
		}
		got := w.do(http.MethodPost, "/v1/evaluations", strings.NewReader(strings.Replace(string(good), c.from, c.to, 1)), "")
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), `"location":"`+c.field) {
			t.Errorf("%s gave %d %s; it should name %s", c.to, got.status, got.body, c.field)
		}
	}
	w.do(http.MethodPost, "/v1/evaluations", strings.NewReader(`{"name":"`+strings.Repeat("x", 16<<20)+`"}`), "").want(http.StatusRequestEntityTooLarge, nil)
	w.do(http.MethodGet, "/v1/evaluations?cursor=x", nil, "").want(http.StatusUnprocessableEntity, nil)
}

func TestAnswersAreRatedThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	w.post("/v1/collections", api.NewCollection{Name: "d"}, "").want(http.StatusCreated, nil)
	asker, other := w.with(nil, schema.ScopeQuery), w.with(nil, schema.ScopeQuery)
	var job schema.Job
	asker.post("/v1/jobs", api.Query{Collection: "c", Query: "how long?"}, "").want(http.StatusAccepted, &job)
	rating := "/v1/questions/" + job.ID.String() + "/rating"
	put := func(u user, body string) response {
		return u.do(http.MethodPut, rating, strings.NewReader(body), "")
	}
	put(asker, `{"rating":"up"}`).want(http.StatusConflict, nil)
	in := wire.QuestionInput{Tenant: w.admin.Tenant, Question: job.ID, Attempt: 1}
	if err := w.asked.SaveAnswer(t.Context(), in, schema.Answer{Answer: "two years", Supported: true, Plan: "naive"}); err != nil {
		t.Fatal(err)
	}
	var first, again schema.Rating
	put(asker, `{"rating":"up","comment":"exactly"}`).want(http.StatusOK, &first)
	put(asker, `{"rating":"up","comment":"exactly"}`).want(http.StatusOK, &again)
	if first.Question != job.ID || first.Rating != schema.ThumbsUp || first != again {
		t.Errorf("rated %+v, then %+v", first, again)
	}
	put(other, `{"rating":"up"}`).want(http.StatusNotFound, nil)
	put(asker, `{"rating":"sideways"}`).want(http.StatusUnprocessableEntity, nil)
	put(asker, `{"rating":"up","comment":"`+strings.Repeat("x", 2001)+`"}`).want(http.StatusUnprocessableEntity, nil)
	put(w.user, `{"rating":"down","comment":"no"}`).want(http.StatusOK, nil)
	for query, want := range map[string]int{"": 2, "?own=true": 1, "?rating=down": 1, "?collection=c": 2, "?collection=d": 0, "?question=" + job.ID.String(): 2, "?limit=1": 1} {
		var page api.Page[schema.RatedAnswer]
		w.do(http.MethodGet, "/v1/ratings"+query, nil, "").want(http.StatusOK, &page)
		if len(page.Items) != want || (page.Next != "") != (query == "?limit=1") {
			t.Errorf("%s lists %+v", query, page)
		}
		if len(page.Items) > 0 && (page.Items[0].Text != "how long?" || page.Items[0].Answer != "two years" || page.Items[0].Citations == nil) {
			t.Errorf("%s lists %+v", query, page.Items[0])
		}
	}
	w.do(http.MethodGet, "/v1/ratings?collection=nowhere", nil, "").want(http.StatusNotFound, nil)
	var seen api.Page[schema.RatedAnswer]
	other.do(http.MethodGet, "/v1/ratings", nil, "").want(http.StatusOK, &seen)
	if len(seen.Items) != 0 {
		t.Errorf("another key sees %+v", seen)
	}
	asker.do(http.MethodDelete, rating, nil, "").want(http.StatusNoContent, nil)
	asker.do(http.MethodDelete, rating, nil, "").want(http.StatusNotFound, nil)
}
