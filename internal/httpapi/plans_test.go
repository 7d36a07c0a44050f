package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// scriptedPlans knows one plan and finds fault with every other.
type scriptedPlans struct{}

func (scriptedPlans) Plans() []schema.Plan {
	return []schema.Plan{{Name: "one", Default: true, Stages: []schema.PlanStage{{Stage: "dense", Unit: schema.UnitPassage, Parameters: map[string]any{"k": 10}}}}}
}

func (p scriptedPlans) CheckPlan(text string) (schema.Plan, error) {
	if text == "one" {
		return p.Plans()[0], nil
	}
	return schema.Plan{}, schema.Invalid("stages[2].hybrid.of[0].lexical.weight", "needs a number")
}

// scriptedKeys takes every key for one that may ask.
type scriptedKeys struct{}

func (scriptedKeys) Authenticate(context.Context, string) (schema.Principal, error) {
	return schema.Principal{Tenant: schema.NewID(), Scopes: []schema.Scope{schema.ScopeQuery}}, nil
}

func TestPlansAreListedAndChecked(t *testing.T) {
	server := httptest.NewServer(New(Options{Version: "test", Authenticator: scriptedKeys{}, Plans: scriptedPlans{}}))
	defer server.Close()
	for _, c := range []struct {
		method, path, body string
		status             int
		has                []string
	}{
		{http.MethodGet, "/v1/plans", "", http.StatusOK, []string{`"name":"one"`, `"default":true`, `"stage":"dense"`, `"k":10`}},
		{http.MethodPost, "/v1/plans/check", `{"plan":"one"}`, http.StatusOK, []string{`"name":"one"`}},
		{http.MethodPost, "/v1/plans/check", `{"plan":"two"}`, http.StatusUnprocessableEntity, []string{`"location":"stages[2].hybrid.of[0].lexical.weight"`, "needs a number"}},
		{http.MethodPost, "/v1/plans/check", `{"plan":""}`, http.StatusUnprocessableEntity, []string{`body.plan`}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer slu_any")
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		if _ = got.Body.Close(); err != nil || got.StatusCode != c.status {
			t.Errorf("%s %s %s: %d %s, %v", c.method, c.path, c.body, got.StatusCode, body, err)
		}
		for _, has := range c.has {
			if !strings.Contains(string(body), has) {
				t.Errorf("%s %s %s lacks %s: %s", c.method, c.path, c.body, has, body)
			}
		}
	}
}
