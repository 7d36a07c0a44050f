package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testPlanChoice chooses a collection's plan with questions of a file and with questions that are
// made from its passages, applies it, and asks with it.
func testPlanChoice(t *testing.T, s *server) {
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "chooser", "--json").ok(t))
	own := s.withKey(made.APIKey)
	places, colours := []string{"Grindle", "Marlow", "Tarn", "Oxley", "Brandwick", "Selby"}, []string{"blue", "green", "crimson", "amber", "violet", "white"}
	files, questions := map[string]string{}, ""
	for i, place := range places {
		files[place+".txt"] = fmt.Sprintf("The windmill of %s is painted %s. The windmill of %s was built in %d. It stands on a hill above the village. "+
			"Visitors reach it by a footpath from the market square. The millers' guild of %s meets on the first Monday of the month.", place, colours[i], place, 1700+17*i, place)
		questions += fmt.Sprintf("{\"question\": \"What colour is the windmill of %s?\", \"answer\": %q, \"documents\": [\"%s.txt\"]}\n", place, colours[i], place)
	}
	own.sluice(t, "ingest", write(t, files), "-c", "mills", "--wait").ok(t)
	folder := write(t, map[string]string{"known.jsonl": questions, "bad.jsonl": "{\"question\": \"Which?\"}\n"})
	own.sluice(t, "plans", "choose", "-c", "mills", "--questions", filepath.Join(folder, "bad.jsonl")).fails(t, "bad.jsonl:1", "answer_contains")
	own.sluice(t, "plans", "choose", "-c", "mills", "--plans", "no-such").fails(t, "no-such")
	own.sluice(t, "plans", "choose", "-c", "mills", "--show", "last").fails(t, "no plan was chosen")

	choice := into[schema.PlanChoice](t, own.sluice(t, "plans", "choose", "-c", "mills", "--questions", filepath.Join(folder, "known.jsonl"),
		"--plans", "bm25,hybrid,sluice", "--limit", "12", "--every", "7", "--apply", "--json").ok(t))
	if choice.State != schema.ChoiceDone || choice.Result == nil || len(choice.Result.Plans) != 3 || choice.NextAt == nil {
		t.Fatalf("got %+v", choice)
	}
	if !slices.Contains(choice.Sources, schema.SourceCount{Source: schema.QuestionLabelled, Questions: len(places)}) || choice.Asked != choice.Questions {
		t.Errorf("%d of %d questions were asked: %+v", choice.Asked, choice.Questions, choice.Sources)
	}
	if !slices.ContainsFunc(choice.Sources, func(c schema.SourceCount) bool { return c.Source == schema.QuestionMade && c.Questions > 0 }) {
		t.Errorf("no question was made of passages: %+v, %q", choice.Sources, choice.Notes)
	}
	best := choice.Result.Plans[0]
	for _, p := range choice.Result.Plans {
		if p.Plan == choice.Result.Plan && p.Quality < best.Quality-choice.Result.Margin-1e-9 {
			t.Errorf("%s is proposed at %.3f, and %s has %.3f", p.Plan, p.Quality, best.Plan, best.Quality)
		}
	}
	if best.Quality < 0.9 {
		t.Errorf("the best plan finds %.3f of the answers", best.Quality)
	}
	c := into[[]schema.Collection](t, own.sluice(t, "collections", "list", "--json").ok(t))[0]
	if choice.Applied != choice.Result.Plan || c.Plan != choice.Result.Plan {
		t.Errorf("%q was applied of %q, and the collection has %q", choice.Applied, choice.Result.Plan, c.Plan)
	}
	answer := into[schema.Answer](t, own.sluice(t, "ask", "What colour is the windmill of Tarn?", "-c", "mills", "--json").ok(t))
	if answer.Plan != choice.Result.Plan || !strings.Contains(answer.Answer, "crimson") {
		t.Errorf("answered %+v", answer)
	}
	// The labelled questions are stored, so the next choice uses them.
	again := into[schema.PlanChoice](t, own.sluice(t, "plans", "choose", "-c", "mills", "--plans", "bm25", "--limit", "6", "--json").ok(t))
	if len(again.Sources) != 1 || again.Sources[0].Source != schema.QuestionLabelled {
		t.Errorf("the second choice asks %+v", again.Sources)
	}
	if out := own.sluice(t, "plans", "choose", "-c", "mills", "--show", choice.ID.String()).ok(t).out; !strings.Contains(out, "(now)") && !strings.Contains(out, choice.Result.Plan+" is proposed") {
		t.Errorf("the table says %s", out)
	}
	own.sluice(t, "plans", "choose", "-c", "mills", "--repeat", "0").ok(t)
	// Other tenants do not see the choice.
	other := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "chooser-other", "--json").ok(t))
	s.withKey(other.APIKey).sluice(t, "plans", "choose", "-c", c.ID.String(), "--show", choice.ID.String()).fails(t, "not found")
}
