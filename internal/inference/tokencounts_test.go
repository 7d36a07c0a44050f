package inference

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTokenCounter(t *testing.T) {
	var c tokenCounter
	for _, ids := range [][]int32{{7}, {5, 9, 5, 5, 0, 9}, {70000, 5}, {5, 5}} {
		want := map[int32]int32{}
		var order []int32
		for _, id := range ids {
			if want[id]++; want[id] == 1 {
				order = append(order, id)
			}
		}
		distinct, counts := c.count(slices.Clone(ids))
		if !slices.Equal(distinct, order) || len(counts) != len(distinct) {
			t.Fatalf("%v: distinct %v, counts %v", ids, distinct, counts)
		}
		for i, id := range distinct {
			if counts[i] != want[id] {
				t.Errorf("%v: %d occurs %d times, not %d", ids, id, counts[i], want[id])
			}
		}
	}
}

// TestCountedTokensGiveTheGoldenVectors: alone and padded, the shipped encoder returns the same for
// the numbers of a text's tokens as for the tokens.
func TestCountedTokensGiveTheGoldenVectors(t *testing.T) {
	m := openPack(t, pack)
	if !m.encoder.counts {
		t.Fatal("the shipped encoder does not count")
	}
	var together []sequence
	var want [][]float32
	fewer := 0
	for _, g := range readGoldens(t).Encoder {
		if len(g.IDs) == 0 {
			continue
		}
		s := m.encoder.sequence(slices.Clone(g.IDs), make([]float32, m.dimension()))
		fewer += len(g.IDs) - len(s.ids)
		if err := m.encoder.encode(t.Context(), []sequence{s}); err != nil {
			t.Fatal(err)
		}
		near(t, "vector of "+g.Text[:min(40, len(g.Text))], s.vector, g.Embedding)
		s.vector = make([]float32, m.dimension())
		together, want = append(together, s), append(want, g.Embedding)
	}
	if fewer < 50 {
		t.Fatalf("the goldens repeat %d tokens: too few to notice", fewer)
	}
	if err := m.encoder.encode(t.Context(), together); err != nil {
		t.Fatal(err)
	}
	for i, s := range together {
		near(t, "padded vector", s.vector, want[i])
	}
}

// TestCheckReportsAnEncoderThatCannotCount: to the encoder of the large pack, a transformer, the
// order of tokens makes a difference.
func TestCheckReportsAnEncoderThatCannotCount(t *testing.T) {
	const large, counted = "../../models/large", "  dimension: 384\n  counts: true\n"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(large)); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, manifestName), "  dimension: 384\n", counted)
	report, err := Check(t.Context(), Options{Pack: dir, Library: libraryPath(t), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Problems, func(p string) bool {
		return strings.HasPrefix(p, "encoder: ") && strings.Contains(p, "leave counts out")
	}) {
		t.Errorf("problems %q", report.Problems)
	}
}

// BenchmarkRepeatedTokens encodes passages of about 200 tokens, with their repeated tokens as they
// are and counted.
func BenchmarkRepeatedTokens(b *testing.B) {
	m := openPack(b, pack)
	card, err := os.ReadFile(filepath.Join(pack, "MODEL_CARD.md"))
	if err != nil {
		b.Fatal(err)
	}
	all, _, _ := m.encoder.tokens(strings.Repeat(string(card[:4000]), 2))
	for _, name := range []string{"each", "counted"} {
		b.Run(name, func(b *testing.B) {
			var batch []sequence
			for i := range 32 {
				ids := slices.Clone(all[i*7:][:200])
				s := sequence{ids: ids, vector: make([]float32, m.dimension())}
				if name == "counted" {
					s = m.encoder.sequence(ids, s.vector)
				}
				batch = append(batch, s)
			}
			for b.Loop() {
				if err := m.encoder.encode(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(batch)), "us/text")
		})
	}
}
