package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (u user) put(path string, body any) response {
	u.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		u.t.Fatal(err)
	}
	return u.do(http.MethodPut, path, bytes.NewReader(data), "")
}

const ownPlan = "name: mine\nstages:\n- dense: {k: 3}\n"

func TestPlansOfATenantsOwn(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	asker := w.with(nil, schema.ScopeQuery)
	var plan schema.Plan

	w.put("/v1/plans/mine", api.PlanText{Plan: ownPlan}).want(http.StatusOK, &plan)
	if !plan.Own || plan.Text != ownPlan || len(plan.Stages) != 1 || plan.UpdatedAt == nil {
		t.Errorf("stored as %+v", plan)
	}
	for _, c := range []struct{ path, plan, field string }{
		{"sluice", "name: sluice\nstages: [dense]", "name"},
		{"other", ownPlan, "name"},
		{"mine", "name: mine\nstages: [guess]", "stages[0]"},
	} {
		got := w.put("/v1/plans/"+c.path, api.PlanText{Plan: c.plan})
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), `"location":"`+c.field+`"`) {
			t.Errorf("%q as %s: %d %s", c.plan, c.path, got.status, got.body)
		}
	}
	asker.put("/v1/plans/mine", api.PlanText{Plan: ownPlan}).want(http.StatusForbidden, nil)

	var shipped schema.Plan
	asker.do(http.MethodGet, "/v1/plans/naive", nil, "").want(http.StatusOK, &shipped)
	if shipped.Own || !strings.Contains(shipped.Text, "name: naive") {
		t.Errorf("naive is %+v", shipped)
	}
	// Page by page: every plan once, by name, without its text.
	var names []string
	for cursor := ""; ; {
		var page api.Page[schema.Plan]
		asker.do(http.MethodGet, "/v1/plans?limit=3&cursor="+cursor, nil, "").want(http.StatusOK, &page)
		for _, p := range page.Items {
			if names = append(names, p.Name); p.Text != "" {
				t.Errorf("listed with the text %q", p.Text)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if all := strings.Join(names, " "); all != "bm25 chunkrag fitrag funnel-lite funnelrag hybrid mine naive sage saki sluice" {
		t.Errorf("listed are %s", all)
	}
	var made api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &made)
	other := user{t: t, url: w.url, key: made.APIKey}
	if other.do(http.MethodGet, "/v1/plans/mine", nil, "").status != http.StatusNotFound {
		t.Error("another tenant sees the plan")
	}

	w.do(http.MethodDelete, "/v1/plans/mine", nil, "").want(http.StatusNoContent, nil)
	w.do(http.MethodDelete, "/v1/plans/mine", nil, "").want(http.StatusNotFound, nil)
	w.do(http.MethodDelete, "/v1/plans/naive", nil, "").want(http.StatusUnprocessableEntity, nil)
}

// TestWhatRunsIsTheTextOfThePlan: workers are sent the text of a plan that they do not have, and
// jobs keep it.
func TestWhatRunsIsTheTextOfThePlan(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	w.put("/v1/plans/mine", api.PlanText{Plan: ownPlan}).want(http.StatusOK, nil)
	var sent wire.SearchRequest
	serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.SearchSubject, Group: "test", Concurrency: 1},
		func(_ context.Context, r wire.SearchRequest) wire.SearchReply {
			sent = r
			return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: r.Plan}}
		}, func(e *schema.RemoteError) wire.SearchReply { return wire.SearchReply{Error: e} }))
	const inline = "name: tried\nstages: [lexical]"
	for _, c := range []struct {
		q          api.Query
		name, text string
	}{
		{api.Query{}, "sluice", ""},
		{api.Query{Plan: "naive"}, "naive", ""},
		{api.Query{Plan: "mine"}, "mine", ownPlan},
		{api.Query{PlanText: inline}, "tried", inline},
	} {
		c.q.Collection, c.q.Query = "c", "q"
		w.post("/v1/search", c.q, "").want(http.StatusOK, nil)
		if sent.Plan != c.name || sent.PlanText != c.text {
			t.Errorf("%+v is sent as %q, %q", c.q, sent.Plan, sent.PlanText)
		}
		var job schema.Job
		w.post("/v1/jobs", c.q, "").want(http.StatusAccepted, &job)
		if stored := scalar[string](w, `SELECT plan || '|' || plan_text FROM questions WHERE id = $1`, job.ID); stored != c.name+"|"+c.text {
			t.Errorf("%+v is stored as %q", c.q, stored)
		}
	}
	for _, q := range []api.Query{{Plan: "none"}, {PlanText: "name: x\nstages: [guess]"}, {Plan: "mine", PlanText: inline}} {
		q.Collection, q.Query = "c", "q"
		for _, path := range []string{"/v1/search", "/v1/ask", "/v1/jobs"} {
			w.post(path, q, "").want(http.StatusUnprocessableEntity, nil)
		}
	}
}

// TestACollectionsPlanRunsWhenNoneIsNamed: after the plan is deleted, the server's default runs,
// and a note says so.
func TestACollectionsPlanRunsWhenNoneIsNamed(t *testing.T) {
	w := newWorld(t)
	w.put("/v1/plans/mine", api.PlanText{Plan: ownPlan}).want(http.StatusOK, nil)
	var c schema.Collection
	w.post("/v1/collections", api.NewCollection{Name: "c", Plan: "naive"}, "").want(http.StatusCreated, &c)
	if c.Plan != "naive" {
		t.Errorf("made with plan %q", c.Plan)
	}
	w.post("/v1/collections", api.NewCollection{Name: "d", Plan: "none"}, "").want(http.StatusUnprocessableEntity, nil)
	var sent wire.SearchRequest
	serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.SearchSubject, Group: "test", Concurrency: 1},
		func(_ context.Context, r wire.SearchRequest) wire.SearchReply {
			sent = r
			return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: r.Plan}}
		}, func(e *schema.RemoteError) wire.SearchReply { return wire.SearchReply{Error: e} }))
	change := func(plan string, status int) {
		t.Helper()
		body := bytes.NewBufferString(`{"plan":` + strconv.Quote(plan) + `}`)
		got := w.do(http.MethodPatch, "/v1/collections/c", body, "")
		if got.status == http.StatusOK {
			c = schema.Collection{}
			got.want(status, &c)
		}
		got.want(status, nil)
	}
	// ran checks with which plan a search of the collection was sent; named may be empty.
	ran := func(named, name, text, note string) {
		t.Helper()
		var found api.SearchResult
		w.post("/v1/search", api.Query{Collection: "c", Query: "q", Plan: named}, "").want(http.StatusOK, &found)
		if sent.Plan != name || sent.PlanText != text || found.Plan != name || !strings.Contains(found.PlanNote, note) || note == "" && found.PlanNote != "" {
			t.Errorf("asked with %q, %q and the note %q; want %q, %q, %q", sent.Plan, sent.PlanText, found.PlanNote, name, text, note)
		}
		var job schema.Job
		w.post("/v1/jobs", api.Query{Collection: "c", Query: "q", Plan: named}, "").want(http.StatusAccepted, &job)
		if job.Plan != name {
			t.Errorf("the job runs %q, want %q", job.Plan, name)
		}
	}
	ran("", "naive", "", "")
	ran("bm25", "bm25", "", "")
	change("mine", http.StatusOK)
	if c.Plan != "mine" || c.PlanProblem != "" {
		t.Errorf("changed to %+v", c)
	}
	ran("", "mine", ownPlan, "")
	change("none", http.StatusUnprocessableEntity)
	ran("", "mine", ownPlan, "")

	w.do(http.MethodDelete, "/v1/plans/mine", nil, "").want(http.StatusNoContent, nil)
	ran("", "sluice", "", `"mine"`)
	w.do(http.MethodGet, "/v1/collections/c", nil, "").want(http.StatusOK, &c)
	if c.Plan != "mine" || !strings.Contains(c.PlanProblem, `"mine"`) {
		t.Errorf("it is told as %+v", c)
	}
	change("", http.StatusOK)
	ran("", "sluice", "", "")

	// Only admins set a collection's plan, in their own tenant.
	asker := w.with(nil, schema.ScopeQuery)
	asker.do(http.MethodPatch, "/v1/collections/c", strings.NewReader(`{"plan":"naive"}`), "").want(http.StatusForbidden, nil)
	var made api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &made)
	other := user{t: t, url: w.url, key: made.APIKey}
	other.do(http.MethodPatch, "/v1/collections/"+c.ID.String(), strings.NewReader(`{"plan":"naive"}`), "").want(http.StatusNotFound, nil)
}

// TestAPlanThatCostsTooMuchIsRefused: before a request is sent to a worker.
func TestAPlanThatCostsTooMuchIsRefused(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	const text = "name: dear\nstages:\n  - dense\n  - judge: {depth: 100, batch: 1}\n"
	query := w.with(nil, schema.ScopeQuery)
	for _, path := range []string{"/v1/search", "/v1/ask", "/v1/jobs"} {
		got := query.post(path, api.Query{Collection: "c", Query: "q", PlanText: text}, "")
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "stages[1].judge") {
			t.Errorf("%s gave %d %s", path, got.status, got.body)
		}
	}
	w.do(http.MethodPut, "/v1/plans/dear", strings.NewReader(`{"plan":`+strconv.Quote(text)+`}`), "").want(http.StatusUnprocessableEntity, nil)
	query.post("/v1/plans/check", api.PlanText{Plan: text}, "").want(http.StatusUnprocessableEntity, nil)
}
