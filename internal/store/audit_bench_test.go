package store_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// BenchmarkRecordReads records searches that show ten documents each, and writes them in batches
// like those of a second with 300 searches. It includes all work for the audit of a search, also
// that of Postgres.
func BenchmarkRecordReads(b *testing.B) {
	f := setUp(b, store.Options{})
	r := audit.NewRecorder(f.AuditStore)
	read := readsOf("reader", 1)[0]
	for range 8 {
		read.Documents = append(slices.Clone(read.Documents), uuid.New())
	}
	b.ResetTimer()
	for n := range b.N {
		read.ID = schema.NewID()
		r.Record(f.a.Tenant, read)
		if n%300 == 299 || n == b.N-1 {
			if err := r.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
