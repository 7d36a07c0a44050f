package plan

import (
	"errors"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

const basePlan = `name: base
segmentation: {by: sentences}
stages:
  - hybrid:
      of:
        - lexical: {weight: 1}
        - dense
  - limit: {k: 30}
  - gradient
  - limit: {k: 10}
`

func node(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return n.Content[0]
}

func TestPlansAreChanged(t *testing.T) {
	_, p, err := Changed(basePlan, Change{
		Without: []string{"segmentation"},
		Append:  []*yaml.Node{node(t, "order: {method: ends}")},
		Set: []Setting{{"gradient.g", node(t, "0.7")}, {"limit[2].k", node(t, "5")}, {"hybrid.of.dense.weight", node(t, "0.25")},
			{"hybrid.k", node(t, "40")}, {"feedback.rounds", node(t, "2")}, {"order.method", node(t, "rank")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := p.Describe()
	hybrid := d.Stages[0].Parameters
	dense := hybrid["of"].([]any)[1].(map[string]any)["dense"].(map[string]any)
	if d.Segmentation != nil || len(d.Stages) != 5 || hybrid["k"] != 40 || dense["weight"] != 0.25 || d.Stages[1].Parameters["k"] != 30 ||
		d.Stages[2].Parameters["g"] != 0.7 || d.Stages[3].Parameters["k"] != 5 || d.Stages[4].Parameters["method"] != "rank" || d.Feedback.Rounds != 2 {
		t.Errorf("the changed plan is %+v", d)
	}
	same, q, err := Changed(basePlan, Change{})
	if err != nil || len(q.Stages()) != 4 {
		t.Errorf("without a change it is %s, %v", same, err)
	}
	if _, p, err = Changed(basePlan, Change{Without: []string{"limit"}, Set: []Setting{{"segmentation", node(t, "{by: recursive}")}}}); err != nil ||
		len(p.Stages()) != 2 || p.Segmentation().By != schema.ByRecursion {
		t.Errorf("without limits, cut anew: %+v, %v", p.Describe(), err)
	}
}

func TestChangesThatCannotBeMade(t *testing.T) {
	for field, c := range map[string]Change{
		"without[0]":             {Without: []string{"dedupe"}},
		"without[1]":             {Without: []string{"gradient", "feedback"}},
		"set.gradient":           {Set: []Setting{{"gradient", node(t, "{g: 1}")}}},
		"set.dedupe.cosine":      {Set: []Setting{{"dedupe.cosine", node(t, "1")}}},
		"set.limit.k":            {Set: []Setting{{"limit.k", node(t, "1")}}},
		"set.limit[3].k":         {Set: []Setting{{"limit[3].k", node(t, "1")}}},
		"set.hybrid.of.fuse.k":   {Set: []Setting{{"hybrid.of.fuse.k", node(t, "1")}}},
		"set.hybrid.of.dense":    {Set: []Setting{{"hybrid.of.dense", node(t, "1")}}},
		"set.limit[1].k.more":    {Set: []Setting{{"limit[1].k.more", node(t, "1")}}},
		"stages[2].gradient.g":   {Set: []Setting{{"gradient.g", node(t, "steep")}}},
		"stages[2].gradient.why": {Set: []Setting{{"gradient.why", node(t, "1")}}},
		"feedback.of":            {Without: []string{"gradient"}, Set: []Setting{{"feedback.rounds", node(t, "2")}}},
	} {
		var wrong *schema.FieldError
		if _, _, err := Changed(basePlan, c); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
}
