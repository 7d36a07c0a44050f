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

// scriptedPlans has one plan, and rejects every other.
type scriptedPlans struct{}

var testPlan = schema.Plan{Name: "one", Default: true, Stages: []schema.PlanStage{{Stage: "dense", Unit: schema.UnitPassage, Parameters: map[string]any{"k": 10}}}}

func (scriptedPlans) Plans(context.Context, schema.Principal, schema.PageQuery) ([]schema.Plan, string, error) {
	return []schema.Plan{testPlan}, "", nil
}

func (scriptedPlans) Plan(_ context.Context, _ schema.Principal, name string) (schema.Plan, error) {
	if name != "one" {
		return schema.Plan{}, schema.ErrNotFound
	}
	out := testPlan
	out.Text = "name: one"
	return out, nil
}

func (scriptedPlans) CheckPlan(text string) (schema.Plan, error) {
	if text == "one" {
		return testPlan, nil
	}
	return schema.Plan{}, schema.Invalid("stages[2].hybrid.of[0].lexical.weight", "line 7: needs a number")
}

func (p scriptedPlans) PutPlan(_ context.Context, _ schema.Principal, _, text string) (schema.Plan, error) {
	return p.CheckPlan(text)
}

func (scriptedPlans) DeletePlan(context.Context, schema.Principal, string) error { return nil }

// scriptedKeys accepts every key, with these scopes.
type scriptedKeys []schema.Scope

func (k scriptedKeys) Authenticate(context.Context, string) (schema.Principal, error) {
	return schema.Principal{Tenant: schema.NewID(), Scopes: k}, nil
}

func TestPlansAreListedCheckedAndKept(t *testing.T) {
	query, admin := scriptedKeys{schema.ScopeQuery}, scriptedKeys{schema.ScopeAdmin}
	for _, c := range []struct {
		keys               scriptedKeys
		method, path, body string
		status             int
		has                []string
	}{
		{query, http.MethodGet, "/v1/plans", "", http.StatusOK, []string{`"name":"one"`, `"default":true`, `"stage":"dense"`, `"k":10`}},
		{query, http.MethodGet, "/v1/plans/one", "", http.StatusOK, []string{`"text":"name: one"`}},
		{query, http.MethodGet, "/v1/plans/two", "", http.StatusNotFound, nil},
		{query, http.MethodPost, "/v1/plans/check", `{"plan":"one"}`, http.StatusOK, []string{`"name":"one"`}},
		{query, http.MethodPost, "/v1/plans/check", `{"plan":"two"}`, http.StatusUnprocessableEntity, []string{`"location":"stages[2].hybrid.of[0].lexical.weight"`, "line 7: needs a number"}},
		{query, http.MethodPost, "/v1/plans/check", `{"plan":""}`, http.StatusUnprocessableEntity, []string{`body.plan`}},
		{query, http.MethodPut, "/v1/plans/one", `{"plan":"one"}`, http.StatusForbidden, nil},
		{query, http.MethodDelete, "/v1/plans/one", "", http.StatusForbidden, nil},
		{admin, http.MethodPut, "/v1/plans/one", `{"plan":"one"}`, http.StatusOK, []string{`"name":"one"`}},
		{admin, http.MethodPut, "/v1/plans/one", `{"plan":"two"}`, http.StatusUnprocessableEntity, []string{`stages[2]`}},
		{admin, http.MethodDelete, "/v1/plans/one", "", http.StatusNoContent, nil},
		{query, http.MethodPost, "/v1/search", `{"collection":"c","query":"q","plan":"one","plan_text":"name: one"}`, http.StatusUnprocessableEntity, []string{`body.plan_text`}},
	} {
		server := httptest.NewServer(New(Options{Version: "test", Authenticator: c.keys, Plans: scriptedPlans{}}))
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
		server.Close()
	}
}
