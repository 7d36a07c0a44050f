package main

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// funnelGroups returns groups in which each side has a time and a recall.
func funnelGroups(groups int, sides map[string][2]float64) []map[string]funnelGroup {
	var out []map[string]funnelGroup
	for range groups {
		g := map[string]funnelGroup{}
		for name, x := range sides {
			g[name] = funnelGroup{millis: []float64{x[0], x[0]}, recall: x[1]}
		}
		out = append(out, g)
	}
	return out
}

// TestFunnelIsChosenOnOneHalf: the fastest setting within one point of recall is chosen on every
// other group, and its reported results are from the remaining groups.
func TestFunnelIsChosenOnOneHalf(t *testing.T) {
	settings := []funnelSetting{{400, 200, 40}, {200, 100, 40}, {100, 50, 40}}
	a := &funnelAsked{settings: settings, flat: 400, scan: []float64{1}}
	choosing := funnelGroups(2, map[string][2]float64{
		flatSide: {100, 0.9}, settings[0].plan(): {60, 0.95}, settings[1].plan(): {40, 0.895}, settings[2].plan(): {20, 0.88}})
	compared := funnelGroups(2, map[string][2]float64{
		flatSide: {100, 0.9}, settings[0].plan(): {60, 0.95}, settings[1].plan(): {70, 0.8}, settings[2].plan(): {20, 0.95}})
	a.groups = []map[string]funnelGroup{choosing[0], compared[0], choosing[1], compared[1]}
	f := &findings{Part: "funnel"}
	if err := a.conclude(f); err != nil {
		t.Fatal(err)
	}
	if len(f.Ratios) != 9 {
		t.Fatalf("%d rows", len(f.Ratios))
	}
	for _, r := range f.Ratios {
		second := strings.Contains(r.What, settings[1].String())
		if (r.Target > 0) != (second && r.Unit != "tokens") {
			t.Errorf("%s has the target %g", r.What, r.Target)
		}
		if second && r.Unit != "tokens" && r.reached() {
			t.Errorf("%s is reached with %g", r.What, r.value())
		}
	}
}

// TestFunnelWithoutAGoodOneTakesTheBest: if all settings lose too much recall, the one with the
// smallest loss is chosen.
func TestFunnelWithoutAGoodOneTakesTheBest(t *testing.T) {
	settings := []funnelSetting{{4, 2, 1}, {8, 4, 2}}
	seen := funnelSeen(funnelGroups(1, map[string][2]float64{flatSide: {100, 0.9}, settings[0].plan(): {10, 0.5}, settings[1].plan(): {90, 0.7}}))
	if got := seen.choose(settings); got != settings[1] {
		t.Errorf("chosen %s", got)
	}
}

func TestFunnelThatNobodyAskedHasNoRows(t *testing.T) {
	f := &findings{}
	if err := (&funnelAsked{settings: []funnelSetting{{1, 1, 1}}}).conclude(f); err != nil || len(f.Ratios) != 0 {
		t.Errorf("%d rows, %v", len(f.Ratios), err)
	}
}

func TestQuestionsAreDrawnOnce(t *testing.T) {
	all := make([]evaluate.Topic, 50)
	for i := range all {
		all[i].ID = strings.Repeat("x", i)
	}
	got, again := drawn(all, 20, 3), drawn(all, 20, 3)
	seen := map[string]bool{}
	for i, q := range got {
		if seen[q.ID] || again[i].ID != q.ID {
			t.Errorf("question %d occurs twice, or another the second time", i)
		}
		seen[q.ID] = true
	}
	if len(got) != 20 || all[1].ID != "x" {
		t.Errorf("%d questions; the dataset's are in another order", len(got))
	}
}

// TestShippedPlansAreMeasuredBesideTheFunnels: they are reported with their time and the tokens
// that models read, and without a target.
func TestShippedPlansAreMeasuredBesideTheFunnels(t *testing.T) {
	setting := funnelSetting{400, 200, 40}
	a := &funnelAsked{settings: []funnelSetting{setting}, plans: []string{"funnelrag"}, flat: 400, scan: []float64{1}}
	a.groups = funnelGroups(1, map[string][2]float64{flatSide: {100, 0.9}, setting.plan(): {60, 0.9}, "funnelrag": {250, 0.6}})
	for side, tokens := range map[string]float64{flatSide: 60_000, setting.plan(): 6000, "funnelrag": 30_000} {
		g := a.groups[0][side]
		g.tokens = []float64{tokens, tokens}
		a.groups[0][side] = g
	}
	f := &findings{Part: "funnel"}
	if err := a.conclude(f); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, r := range f.Ratios {
		got[r.What] = r.value()
		if strings.Contains(r.What, "funnelrag") && r.Target != 0 {
			t.Errorf("%s has the target %g", r.What, r.Target)
		}
	}
	for what, want := range map[string]float64{
		"time per question, hybrid funnel 400/200/40": 0.6, "tokens read by models per question, hybrid funnel 400/200/40": 0.1,
		"time per question, plan funnelrag": 2.5, "tokens read by models per question, plan funnelrag": 0.5,
	} {
		if x, ok := got[what]; !ok || x < want-1e-9 || x > want+1e-9 {
			t.Errorf("%s: %v, want %v", what, x, want)
		}
	}
}
