package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/schema"
)

// TestParsePlanNamesTheLine: the error says in which line the field is.
func TestParsePlanNamesTheLine(t *testing.T) {
	for _, c := range []struct{ name, yaml, field, line string }{
		{"a parameter", "name: p\n\nstages:\n  - dense: {k: 3}\n  - limit:\n      k: many\n", "stages[1].limit.k", "line 6: "},
		{"a parameter inside", "name: p\nstages:\n- hybrid:\n    of:\n    - dense\n    - lexical:\n        weight: heavy", "stages[0].hybrid.of[1].lexical.weight", "line 7: "},
		{"a stage", "name: p\nstages:\n- dense\n- guess: {k: 1}", "stages[1]", "line 4: "},
		{"what is missing", "stages:\n- dense", "name", "line 1: "},
		{"a field too many", "name: p\nstages:\n- dense\ncolour: red", "colour", "line 4: "},
		{"given twice", "name: p\nstages: [dense]\nname: q", "name", "line 3: "},
	} {
		_, err := plan.Parse([]byte(c.yaml))
		var field *schema.FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.HasPrefix(field.Problem, c.line) {
			t.Errorf("%s: got %v, want %s, %s", c.name, err, c.field, c.line)
		}
	}
	if _, err := plan.Parse([]byte("name: p\nstages: [")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("broken YAML: %v", err)
	}
}
