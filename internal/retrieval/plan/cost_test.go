package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
)

func TestOwnPlansAreAffordable(t *testing.T) {
	for field, stages := range map[string]string{
		"stages[1].judge ": "  - dense\n  - judge: {by: filter, depth: 51, batch: 1}\n",
		"stages[1].judge":  "  - dense\n  - judge: {depth: 100, batch: 1}\n",
		"stages[2].judge":  "  - dense\n  - judge: {depth: 80}\n  - judge: {depth: 20}\n",
		"stages[1].score":  "  - dense\n  - score: {depth: 500, pieces: 64}\n",
		"stages[1].score ": "  - dense\n  - score: {depth: 0, pieces: 6}\n", // with depth 0, 1,000 candidates are read
		"stages[2].score":  "  - dense\n  - score: {depth: 100}\n  - score: {model: reranker, depth: 100}\n",
		"stages[24].dense": strings.Repeat("  - dense\n", 25),
		"stages[1].reduce": "  - dense\n  - reduce: {depth: 100, windows: 500}\n",
		"stages[1].fuse":   "  - dense: {unit: section}\n  - fuse: {depth: 500, pieces: 64}\n",
	} {
		p, err := plan.Parse([]byte("name: x\nstages:\n" + stages))
		if err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		var wrong *schema.FieldError
		if err := p.Affordable(); !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%s is said to be %v", field, err)
		}
	}
	c, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range c.Names() {
		if p, err := c.Plan(name); err != nil || p.Affordable() != nil {
			t.Errorf("%s: %v, %v", name, err, p.Affordable())
		}
	}
}
