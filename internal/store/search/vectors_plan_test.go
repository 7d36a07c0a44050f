package search

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestVectorsOfAVersionAreFoundByIndexes: loading a version's vectors does no sequential scan.
func TestVectorsOfAVersionAreFoundByIndexes(t *testing.T) {
	c := storetest.Filled(t)
	c.FindByIndexes(t, map[string]storetest.Statement{"read vectors": {
		SQL:  fmt.Sprintf(versionVectorsSQL, "vectors_256"),
		Args: []any{c.Tenant, []uuid.UUID{c.Version}, 1, []uuid.UUID{uuid.Nil}, 1},
	}})
}
