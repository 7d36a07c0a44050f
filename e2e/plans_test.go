package e2e

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testPlans runs a tenant's own plan in the query worker, from a file and stored.
func testPlans(t *testing.T, s *server) {
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "planner", "--json").ok(t))
	own := s.withKey(made.APIKey)
	own.sluice(t, "ingest", write(t, map[string]string{
		"mill.txt":   "The windmill of Grindle is painted in blue and yellow stripes.",
		"tower.txt":  "The watch tower of Grindle is built of grey stone.",
		"bridge.txt": "The bridge of Grindle has nine arches.",
	}), "-c", "grindle", "--wait").ok(t)
	const question = "How is the windmill of Grindle painted?"
	const text = "name: two-passages\ndescription: Two passages by their words.\nstages:\n  - lexical: {unit: passage, k: 20}\n  - limit: {k: 2}\n"
	folder := write(t, map[string]string{
		"plan.yaml":  text,
		"wrong.yaml": "name: wrong\nstages:\n  - lexical: {unit: passage, k: many}\n",
		"empty.yaml": "\n",
		"long.yaml":  "# " + strings.Repeat("x", 70_000),
	})
	file := func(name string) string { return filepath.Join(folder, name) }

	// ran checks that the worker ran the plan: its name, its stages and the number of passages they
	// keep.
	ran := func(how string, found api.SearchResult) {
		t.Helper()
		var stages []string
		for _, r := range found.Trace {
			stages = append(stages, r.Stage)
		}
		if found.Plan != "two-passages" || !slices.Equal(stages, []string{"lexical", "limit"}) || len(found.Context) != 2 || found.Passages[0].ExternalID != "mill.txt" {
			t.Errorf("%s: plan %s, stages %v, %d passages for an answer, the first of %s", how, found.Plan, stages, len(found.Context), found.Passages[0].ExternalID)
		}
	}
	args := []string{question, "-c", "grindle", "--json"}
	searched := func(more ...string) api.SearchResult {
		t.Helper()
		return into[api.SearchResult](t, own.sluice(t, append(append([]string{"search"}, args...), more...)...).ok(t))
	}
	answered := func(how string, a schema.Answer) {
		t.Helper()
		if a.Plan != "two-passages" || !a.Supported || !strings.Contains(a.Answer, "blue and yellow") || a.Citations[0].Document != "mill.txt" {
			t.Errorf("%s: answered %+v", how, a)
		}
	}

	// A plan from a file is not stored.
	ran("a file", searched("--plan-file", file("plan.yaml")))
	answered("a file", into[schema.Answer](t, own.sluice(t, append([]string{"ask", "--plan-file", file("plan.yaml")}, args...)...).ok(t)))
	own.sluice(t, "search", question, "-c", "grindle", "--plan", "two-passages").fails(t, "two-passages")
	for _, x := range []struct {
		file  string
		words []string
	}{
		{file("none.yaml"), []string{"none.yaml", "no such file"}},
		{file("wrong.yaml"), []string{"wrong.yaml", "stages[0]", "k"}},
		{file("empty.yaml"), []string{"empty.yaml", "is empty", "plans show"}},
		{file("long.yaml"), []string{"long.yaml", "65536 bytes"}},
		{folder, []string{folder, "directory"}},
	} {
		own.sluice(t, "search", question, "-c", "grindle", "--plan-file", x.file).fails(t, x.words...)
		own.sluice(t, "ask", question, "-c", "grindle", "--plan-file", x.file).fails(t, x.words...)
	}
	own.sluice(t, "ask", question, "-c", "grindle", "--plan-file", file("plan.yaml"), "--plan", "naive").fails(t, "--plan", "--plan-file")

	// A stored plan belongs to the tenant and is used by its name.
	own.sluice(t, "plans", "put", file("plan.yaml")).ok(t).has(t, "two-passages", "your own")
	ran("its name", searched("--plan", "two-passages"))
	answered("its name", into[schema.Answer](t, own.sluice(t, append([]string{"ask", "--plan", "two-passages"}, args...)...).ok(t)))
	job := into[schema.Job](t, own.sluice(t, append([]string{"ask", "--async", "--plan", "two-passages"}, args...)...).ok(t))
	answered("a job", *awaitJob(t, own, job).Result)
	s.sluice(t, "collections", "create", "elsewhere").ok(t)
	s.sluice(t, "search", question, "-c", "elsewhere", "--plan", "two-passages").fails(t, "two-passages")
	s.sluice(t, "plans", "show", "two-passages").fails(t, "two-passages")

	// Earlier questions keep their results when the plan is changed or removed.
	put(t, folder, "plan.yaml", strings.Replace(text, "{k: 2}", "{k: 1}", 1))
	own.sluice(t, "plans", "put", file("plan.yaml")).ok(t)
	if found := searched("--plan", "two-passages"); len(found.Context) != 1 {
		t.Errorf("the changed plan gives %d passages", len(found.Context))
	}
	own.sluice(t, "plans", "delete", "two-passages").ok(t)
	own.sluice(t, "ask", question, "-c", "grindle", "--plan", "two-passages").fails(t, "two-passages")
	asked := as[schema.AskedQuestion](t, own.call(t, http.MethodGet, "/v1/questions/"+job.ID.String(), nil).want(t, http.StatusOK))
	if asked.Plan != "two-passages" || asked.PlanText != text {
		t.Errorf("the job was asked by %s:\n%s", asked.Plan, asked.PlanText)
	}
}
