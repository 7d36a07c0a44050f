package corpus

import (
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestOneVersionIsFoundByIndexes: the statements that purge one version, count its passages, or
// lock it for writing scan no table.
func TestOneVersionIsFoundByIndexes(t *testing.T) {
	c := storetest.Filled(t)
	versions := []uuid.UUID{c.Version}
	c.FindByIndexes(t, map[string]storetest.Statement{
		"purge passages":      {SQL: purgePassagesSQL, Args: []any{c.Tenant, versions}},
		"purge sections":      {SQL: purgeSectionsSQL, Args: []any{c.Tenant, versions}},
		"purge vectors":       {SQL: purgeVectorsSQL("vectors_256"), Args: []any{c.Tenant, versions, []uuid.UUID{uuid.Nil}}},
		"remove a generation": {SQL: removePassagesSQL, Args: []any{c.Tenant, versions, 1}},
		"recount":             {SQL: recountSQL, Args: []any{c.Tenant, versions, c.ID}},
		"lock documents":      {SQL: holdDocumentsSQL, Args: []any{versions, c.Tenant}},
		"lock versions":       {SQL: holdVersionsSQL, Args: []any{versions, c.Tenant}},
	})
}
