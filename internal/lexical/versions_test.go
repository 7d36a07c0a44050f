package lexical_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

func TestVersionsAreASet(t *testing.T) {
	ids := make([]uuid.UUID, 300)
	for i := range ids {
		ids[i] = uuid.New()
	}
	in := ids[:200]
	set := lexical.VersionsOf(append(slices.Clone(in), in[:50]...))
	if set.Len() != len(in) || len(slices.Collect(set.All())) != len(in) {
		t.Errorf("%d of %d versions", set.Len(), len(in))
	}
	for i, id := range ids {
		if set.Has(id) != (i < len(in)) {
			t.Errorf("version %d is in the set: %t", i, set.Has(id))
		}
	}
	if empty := lexical.VersionsOf(nil); empty.Len() != 0 || empty.Has(ids[0]) {
		t.Error("an empty set has versions")
	}
}
