package store_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
)

// TestSectionsGoWithTheirVersion: sections are deleted with their version only, and only by a role
// that may delete it.
func TestSectionsGoWithTheirVersion(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(1, 84))
	documents := []*insertedDocument{{vectors: [][]float32{unit(r), unit(r)}}, {vectors: [][]float32{unit(r)}}}
	f.plant(t, f.a, f.collection, documents)
	const countSQL = `SELECT count(*) FROM sections`
	before := one[int](t, f, f.a, countSQL)
	gone := one[uuid.UUID](t, f, f.a, `SELECT version_id FROM sections ORDER BY version_id LIMIT 1`)
	its := one[int](t, f, f.a, countSQL+` WHERE version_id = $1`, gone)
	if its == 0 || its == before {
		t.Fatalf("%d of %d sections are of one version", its, before)
	}
	execAs(t, f, f.b, `DELETE FROM versions WHERE id = $1`, gone)
	if n := one[int](t, f, f.a, countSQL); n != before {
		t.Fatalf("another tenant's deletion left %d of %d sections", n, before)
	}
	execAs(t, f, f.a, `DELETE FROM versions WHERE id = $1`, gone)
	if n := one[int](t, f, f.a, countSQL); n != before-its {
		t.Errorf("%d sections are left, want %d", n, before-its)
	}
	if n := one[int](t, f, f.a, countSQL+` WHERE version_id = $1`, gone); n != 0 {
		t.Errorf("%d sections have outlived their version", n)
	}
	execAs(t, f, f.a, `DELETE FROM documents`)
	if n := one[int](t, f, f.a, countSQL); n != 0 {
		t.Errorf("%d sections have outlived their document", n)
	}
}
