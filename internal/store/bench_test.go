package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// BenchmarkUpload uploads 64 documents at a time, as sluice ingest does, and reports documents per
// second. With unchanged documents it measures the cost of a second run.
func BenchmarkUpload(b *testing.B) {
	for _, kb := range []int{2, 16, 256} {
		for _, unchanged := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKB/unchanged=%t", kb, unchanged), func(b *testing.B) { benchmarkUpload(b, kb<<10, unchanged) })
		}
	}
}

func benchmarkUpload(b *testing.B, size int, unchanged bool) {
	ctx := context.Background()
	s := openPlain(b, localtest.Database(b), store.Options{})
	tenant, err := s.CreateTenant(ctx, schema.Principal{}, schema.NewTenant{Name: "bench"}, sealed("k"))
	if err != nil {
		b.Fatal(err)
	}
	p := schema.Principal{Tenant: tenant.ID, Scopes: []schema.Scope{schema.ScopeAdmin}}
	c, err := s.CreateCollection(ctx, p, schema.NewCollection{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	const documents = 64
	random := rand.NewChaCha8([32]byte{})
	contents := make([][]byte, documents)
	for i := range contents {
		contents[i] = make([]byte, size)
		_, _ = random.Read(contents[i])
	}
	round := 0
	upload := func() {
		list := make([]schema.Upload, documents)
		for i := range list {
			if !unchanged {
				copy(contents[i], fmt.Sprintf("round %d", round))
			}
			list[i] = schema.Upload{
				ExternalID: fmt.Sprintf("folder/document-%d-%d", round, i), Title: "A title", MediaType: "text/plain", Content: bytes.NewReader(contents[i]),
				Labels: []string{"staff"}, Metadata: schema.Metadata{"year": 2024.0, "department": "finance"},
			}
		}
		if !unchanged {
			round++
		}
		if _, err := (&fixture{All: s}).Upload(ctx, p, c.ID, list); err != nil {
			b.Fatal(err)
		}
	}
	upload()
	b.ResetTimer()
	for range b.N {
		upload()
	}
	b.ReportMetric(float64(b.N*documents)/b.Elapsed().Seconds(), "documents/s")
	b.ReportMetric(float64(b.N*documents*size)/1e6/b.Elapsed().Seconds(), "MB/s")
}
