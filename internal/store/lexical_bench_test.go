package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// BenchmarkLexicalSearch searches a collection of 64 batches through a warm index, before and after
// merging. Most of the time is the statement that every search sends.
func BenchmarkLexicalSearch(b *testing.B) {
	f := setUp(b, store.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		var list []*written
		for range 16 {
			var body strings.Builder
			for range 200 {
				fmt.Fprintf(&body, "w%d ", r.IntN(1+r.IntN(5000)))
			}
			list = append(list, &written{name: uuid.NewString(), body: strings.ReplaceAll(body.String(), "w7 ", "|")})
		}
		f.write(b, f.a, f.collection, list...)
	}
	search := func(b *testing.B) {
		x := newIndex(f)
		ask := func(i int) {
			_, err := x.SearchText(b.Context(), f.a.Tenant, f.collection, fmt.Sprintf("w%d w%d w%d", i%10, i%50, i%100),
				lexical.TermQuery{Unit: schema.UnitSection, K: 10, Settings: lexical.Defaults})
			if err != nil {
				b.Fatal(err)
			}
		}
		for i := range 100 {
			ask(i)
		}
		for i := 0; b.Loop(); i++ {
			ask(i)
		}
		s := x.Stats()
		b.ReportMetric(float64(s.Bytes)/1e6, "cache-MB")
	}
	b.Run("unmerged", search)
	for {
		n, err := f.MergeSegments(b.Context(), f.a.Tenant, f.collection)
		if err != nil {
			b.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	b.Logf("%d segments", one[int](b, f, f.a, `SELECT count(*) FROM lexical_segments WHERE merged_at IS NULL`))
	b.Run("merged", search)
}
