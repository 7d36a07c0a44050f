//go:build cgo

package queryworker

// The shipped plans with real parts: the lexical index, clusters and vectors in Postgres, and a
// model server that encodes the question.

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func planNames(t *testing.T) []string {
	t.Helper()
	catalogue, err := Plans("")
	if err != nil {
		t.Fatal(err)
	}
	return catalogue.Names()
}

func TestEveryPlanFindsOnRealParts(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.run(w.worker(nil).service())
	for _, plan := range planNames(t) {
		reply := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver, Plan: plan, Documents: 10, Explain: true}})
		if reply.Error != nil || len(reply.Candidates) == 0 || len(reply.Context) == 0 || len(reply.Documents) == 0 {
			t.Fatalf("%s: got %+v", plan, reply)
		}
		best := reply.Candidates[0]
		if best.ExternalID != "leave.md" || !strings.Contains(best.Text, "carry over") || reply.Documents[0].Document != "leave.md" || reply.Context[0] != 0 {
			t.Errorf("%s: the best is %+v of %v", plan, best, reply.Documents)
		}
		stored := scalar[string](w, `SELECT body FROM sections WHERE id = $1`, best.Spans[0].Section)
		if stored[best.Spans[0].Start:best.Spans[0].End] != best.Text {
			t.Errorf("%s: the text is not its span's", plan)
		}
		for _, s := range reply.Trace {
			before := slices.Contains([]string{"rewrite", "segmentation", "spell"}, s.Stage) // stages before the search
			if s.Why == "" || s.Unit == "" && !before || s.Out > 0 && len(s.Kept) == 0 {
				t.Errorf("%s: stage %+v explains nothing", plan, s)
			}
		}
	}
	funnel := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver, Plan: "funnel-lite"}})
	var units []schema.Unit
	for _, s := range funnel.Trace {
		units = append(units, s.Unit)
	}
	want := []schema.Unit{schema.UnitCluster, schema.UnitSection, schema.UnitSection, schema.UnitPassage, schema.UnitPassage, schema.UnitPassage}
	scores := funnel.Candidates[0].Scores
	if !slices.Equal(units, want) || scores["lexical.cluster"] <= 0 || scores["lexical.section"] <= 0 || scores["lexical.passage"] <= 0 || scores["dense.passage"] <= 0 ||
		funnel.Candidates[0].Cluster == uuid.Nil {
		t.Errorf("the funnel went through %v and scored %v", units, scores)
	}
}

func TestEveryPlanHidesWhatIsLabelledDeletedOrFilteredOut(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.run(w.worker(nil).service())
	const board = "What is the chair of the board paid?"
	finds := func(plan, question, document string, groups []string, filter schema.Filter) bool {
		t.Helper()
		w.principal.Groups = groups
		reply := w.search(wire.SearchQuery{Query: schema.Query{Text: question, Plan: plan, K: 100, Documents: 1000, Explain: true, Filter: filter}})
		if reply.Error != nil {
			t.Fatalf("%s: %v", plan, reply.Error)
		}
		ranked := slices.ContainsFunc(reply.Candidates, func(c schema.Candidate) bool { return c.ExternalID == document })
		named := slices.ContainsFunc(reply.Documents, func(d schema.RankedDocument) bool { return d.Document == document })
		if ranked != named {
			t.Errorf("%s: %s is ranked %t, and among the documents %t", plan, document, ranked, named)
		}
		for _, s := range reply.Trace {
			for _, j := range slices.Concat(s.Kept, s.Dropped) {
				if !ranked && j.Document == document {
					t.Errorf("%s: the explanation of %s names %s", plan, s.Stage, document)
				}
			}
		}
		return ranked
	}
	departed := w.add("old-leave.md", "Leave until 2020", "You may carry over up to nine days of unused annual leave into the next year.")
	for _, plan := range planNames(t) {
		if finds(plan, board, "salaries.md", nil, nil) {
			t.Errorf("%s finds a labelled document without its group", plan)
		}
		if !finds(plan, board, "salaries.md", []string{"board"}, nil) {
			t.Errorf("%s does not find a labelled document with its group", plan)
		}
		none := schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"1999"}}}
		if finds(plan, carryOver, "leave.md", nil, none) {
			t.Errorf("%s finds what the filter leaves out", plan)
		}
		if !finds(plan, carryOver, "old-leave.md", nil, nil) {
			t.Errorf("%s does not find what is to be deleted", plan)
		}
	}
	w.ok(w.store.DeleteDocument(w.context(), schema.Principal{Tenant: w.principal.Tenant, Scopes: []schema.Scope{schema.ScopeAdmin, schema.ScopeIngest}}, departed))
	for _, plan := range planNames(t) {
		if finds(plan, carryOver, "old-leave.md", nil, nil) {
			t.Errorf("%s finds a deleted document", plan)
		}
		if !finds(plan, carryOver, "leave.md", nil, nil) {
			t.Errorf("%s does not find what is left", plan)
		}
	}
}

func TestAStoredExplanationNamesTheContextAlone(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	a, failure := w.askSync(w.context(), carryOver)
	if failure != nil || len(a.Trace) < 2 {
		t.Fatalf("got %+v, %v", a, failure)
	}
	sent := scalar[[]string](w, `SELECT array_agg(DISTINCT c->>'document') FROM retrievals, jsonb_array_elements(candidates) c`)
	named := 0
	for _, s := range a.Trace {
		if s.Statistics != nil {
			t.Error("statistics are stored")
		}
		for _, j := range slices.Concat(s.Kept, s.Dropped) {
			if j.Document != "" && !slices.Contains(sent, j.Document) {
				t.Errorf("stage %s names %s, which the answer was not made from", s.Stage, j.Document)
			}
			if j.Document != "" {
				named++
			}
		}
	}
	if named == 0 {
		t.Error("no candidate of the context is named")
	}
}
