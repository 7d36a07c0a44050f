package run_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// The scores of SAGE's Figures 8 and 9.
var (
	figure8 = []float64{13.79, 13.58, 11.91, 11.55, 10.94, 7.815, 7.665, 5.490, 4.416, 1.304, 0.800, 0.255, 0.198, 0.093, 0.089}
	figure9 = []float64{5.080, 3.854, 3.016, 1.734, 1.560, 1.146, 0.842, 0.823, 0.685}
	// halves falls once, from the seventh to the eighth.
	halves = []float64{9, 8.8, 8.6, 8.4, 8.2, 8.1, 8, 4, 3.9, 3.8}
)

func probabilities(logits []float64) []float64 {
	out := make([]float64, len(logits))
	for i, x := range logits {
		out[i] = 1 / (1 + math.Exp(-x))
	}
	return out
}

// ranked is a document of passages with these scores.
func ranked(scores []float64) *scriptedCorpus {
	c := corpus([]int{len(scores)})
	for p, x := range scores {
		c.lexical[passage(0, 0, p)] = x
		c.dense[passage(0, 0, p)] = x
	}
	return c
}

func TestGradientKeepsWhatSAGEsFiguresNeed(t *testing.T) {
	for _, x := range []struct {
		name, gradient string
		scores         []float64
		kept           int
	}{
		// The right answer needs 2 to 10 chunks; the tenth falls to 0.295 of the ninth.
		{"figure 8", "{}", figure8, 9},
		{"figure 8, at once", "{min_k: 1}", figure8, 9},
		{"figure 8, g 0.6", "{min_k: 1, g: 0.6}", figure8, 9},
		{"figure 8, g 0.75", "{min_k: 1, g: 0.75}", figure8, 5},
		{"figure 8, beyond the fall", "{min_k: 12}", figure8, 15}, // the rest falls slowly again
		// A judgement can change min_k by one at first; the selection stays the same.
		{"figure 8, one fewer", "{min_k: 6}", figure8, 9},
		{"figure 8, one more", "{min_k: 8}", figure8, 9},
		{"figure 8, the noise begins", "{min_k: 10}", figure8, 15},
		// As probabilities they hardly fall, and the wrong answer's chunks come along.
		{"figure 8, as probabilities", "{}", probabilities(figure8), 15},
		{"figure 8, by their chances", "{scale: probability}", figure8, 15},
		// If one stands out it is enough; if none does, many are kept.
		{"one stands out", "{min_k: 1, g: 0.6, scale: probability}", []float64{5, -0.5, -0.6, -3}, 1},
		{"none stands out", "{min_k: 1, g: 0.6, scale: probability}", []float64{-2, -2.1, -2.3, -2.5, -4}, 4},
		// More than six are needed, and the scores are smooth.
		{"figure 9", "{}", figure9, 9},
		{"figure 9, at once", "{min_k: 1}", figure9, 9},
		{"figure 9, one fewer", "{min_k: 6}", figure9, 9},
		{"figure 9, g 0.6", "{min_k: 1, g: 0.6}", figure9, 3},
		// The other interpretation: g is the share that a score may lose. It selects the same for
		// both figures.
		{"figure 8, by its fall", "{by: fall}", figure8, 9},
		{"figure 9, by its fall", "{by: fall}", figure9, 9},
		{"figure 8, by its fall, one fewer", "{by: fall, min_k: 6}", figure8, 9},
		{"figure 8, by its fall, one more", "{by: fall, min_k: 8}", figure8, 9},
		{"figure 9, by its fall, one fewer", "{by: fall, min_k: 6}", figure9, 9},
		// The tenth of figure 8 is 0.295 of the ninth: it stays when just over 0.7 may be lost.
		{"figure 8, a fall of 0.7", "{by: fall, g: 0.7}", figure8, 9},
		{"figure 8, a fall of 0.71", "{by: fall, g: 0.71}", figure8, 15},
		// At the first chunk, figure 9 distinguishes the interpretations, and g = 0.3 from 0.7: its
		// fourth score is 0.575 of its third.
		{"figure 9, at once, g 0.7", "{min_k: 1, g: 0.7}", figure9, 3},
		{"figure 9, at once, by its fall", "{by: fall, min_k: 1}", figure9, 3},
		{"figure 9, at once, a fall of 0.7", "{by: fall, min_k: 1, g: 0.7}", figure9, 9},
		{"figure 8, at once, by its fall", "{by: fall, min_k: 1}", figure8, 9},
		{"figure 8, at once, a fall of 0.25", "{by: fall, min_k: 1, g: 0.25}", figure8, 5},
		// The same after the published min_k of 7.
		{"the eighth halves", "{g: 0.3}", halves, 10},
		{"the eighth halves, g 0.7", "{g: 0.7}", halves, 7},
		{"the eighth halves, by its fall", "{by: fall, g: 0.3}", halves, 7},
		{"the eighth halves, a fall of 0.7", "{by: fall, g: 0.7}", halves, 10},
		{"by the fall of their chances", "{by: fall, min_k: 1, g: 0.4, scale: probability}", []float64{5, -0.5, -0.6, -3}, 1},
		{"fewer than min_k", "{}", figure9[:4], 4},
		{"a score of nothing ends it", "{min_k: 1}", []float64{3, 2, 1, 0, 0}, 3},
		{"two of nothing", "{min_k: 1}", []float64{0, 0}, 1},
		{"the chances themselves are compared", "{min_k: 1, g: 0.5, scale: probability}", []float64{5, -0.5}, 1}, // 0.378 / 0.993 is below 0.5
		{"below nothing", "{min_k: 1}", []float64{-1, -1.1, -1.2}, 1},
		{"min_k stays", "{min_k: 2}", []float64{-1, -9, -10}, 2},
	} {
		got := ranked(x.scores).run(t, "- dense\n- gradient: "+x.gradient)
		if len(got.Context) != x.kept || len(got.Candidates) != len(x.scores) {
			t.Errorf("%s: %d of %d are kept, want %d (%s)", x.name, len(got.Context), len(got.Candidates), x.kept, got.Trace[1].Why)
		}
	}
	// 0.255 is 0.319 of 0.800: g 0.32 ends before it.
	if got := ranked(figure8).run(t, "- dense\n- gradient: {min_k: 11, g: 0.32}"); len(got.Context) != 11 {
		t.Errorf("g 0.32 keeps %d", len(got.Context))
	}
}

func TestGradientByANamedScore(t *testing.T) {
	c := ranked([]float64{9, 8, 7, 6})
	for p, x := range []float64{0.1, 5, 4.9, 4.8} {
		c.dense[passage(0, 0, p)] = x
	}
	got := c.run(t, "- lexical\n- dense\n- gradient: {min_k: 1, score: lexical.passage}")
	want(t, "context", got.Context, []int{3, 0, 1, 2}) // candidates are by dense; the context by the named score
	// Proximity gives no scores for a question without words.
	got = c.run(t, "- dense\n- proximity\n- gradient: {min_k: 2, g: 1, score: ordered}", func(q *wire.SearchQuery) { q.Text = "?!" })
	want(t, "context without words", got.Context, []int{0, 1, 2, 3})
	if why := got.Trace[2].Why; !strings.Contains(why, "no candidate has a score of ordered") {
		t.Errorf("the report says %s", why)
	}
}

func TestOrderPutsTheBestAtBothEnds(t *testing.T) {
	want(t, "odd", ranked([]float64{5, 4, 3, 2, 1}).run(t, "- dense\n- order: {method: ends}").Context, []int{0, 2, 4, 3, 1})
	want(t, "even", ranked([]float64{5, 4, 3, 2}).run(t, "- dense\n- order: {method: ends}").Context, []int{0, 2, 3, 1})
	want(t, "rank", ranked([]float64{5, 4, 3, 2}).run(t, "- dense\n- order: {method: ends}\n- order: {method: rank}").Context, []int{0, 1, 2, 3})
}

func TestLimit(t *testing.T) {
	c := ranked(figure9) // passages of 10 tokens, sections of 100
	want(t, "k", ranked(figure9).run(t, "- dense\n- limit: {k: 2}").Context, []int{0, 1})
	got := c.run(t, "- dense\n- limit: {k: 8, tokens: 35}")
	want(t, "tokens", got.Context, []int{0, 1, 2})
	want(t, "the ranking stays", len(got.Candidates), len(figure9))
	if d := got.Trace[1].Dropped; len(d) != 6 || d[0].Why != "over 35 tokens" || d[5].Why != "below rank 8" {
		t.Errorf("dropped %+v", d)
	}
	want(t, "the first stays", c.run(t, "- dense\n- limit: {tokens: 1}").Context, []int{0})
	c.lexical[section(0, 0)] = 1
	want(t, "a section's tokens", c.run(t, "- lexical: {unit: section}\n- limit: {tokens: 99}").Context, []int{0})
}

func TestContextAndRankingAreApart(t *testing.T) {
	c := ranked(figure8)
	for _, x := range []struct {
		stages             string
		k, ranked, context int
	}{
		{"- dense", 0, 10, 10},
		{"- dense", 4, 4, 4},
		{"- dense", 12, 12, 10},
		{"- dense\n- limit: {k: 3}", 0, 10, 3},
		{"- dense\n- limit: {k: 12}", 0, 12, 12},
		{"- dense\n- limit: {k: 12}", 5, 5, 5},
		{"- dense\n- gradient: {min_k: 2}\n- limit: {k: 12}", 100, 15, 9},
	} {
		got := c.run(t, x.stages, func(q *wire.SearchQuery) { q.K = x.k })
		if len(got.Candidates) != x.ranked || len(got.Context) != x.context {
			t.Errorf("%s, k %d: %d ranked and %d in the context, want %d and %d", x.stages, x.k, len(got.Candidates), len(got.Context), x.ranked, x.context)
		}
	}
}

func TestDocumentsRankDeeperThanCandidates(t *testing.T) {
	c := corpus([]int{2}, []int{1}, []int{1})
	for r, x := range map[lexical.Ref]float64{passage(0, 0, 0): 1, passage(0, 0, 1): 4, passage(1, 0, 0): 5, passage(2, 0, 0): 3} {
		c.lexical[r] = x
	}
	got := c.run(t, "- lexical\n- limit: {k: 1}", func(q *wire.SearchQuery) { q.K = 1 })
	want(t, "documents", got.Documents, []schema.RankedDocument{{Document: "b", Score: 5}, {Document: "a", Score: 4}, {Document: "c", Score: 3}})
	want(t, "as many as asked for", documents(c.run(t, "- lexical", func(q *wire.SearchQuery) { q.Documents = 2 })), []string{"b", "a"})
	want(t, "not asked for", documents(c.run(t, "- lexical", func(q *wire.SearchQuery) { q.Documents = 0 })), []string(nil))
}

func TestDedupe(t *testing.T) {
	c := corpus([]int{2}, []int{1}, []int{1}, []int{1})
	for i, r := range []lexical.Ref{passage(0, 0, 0), passage(1, 0, 0), passage(2, 0, 0), passage(0, 0, 1), passage(3, 0, 0)} {
		c.lexical[r] = float64(9 - i)
	}
	c.documents[1].sections[0][0] = "TEXT a, 0... 0" // the first one's text
	c.vectors[passage(0, 0, 0)], c.vectors[passage(2, 0, 0)], c.vectors[passage(0, 0, 1)] = []float32{1, 0}, []float32{0.95, 0.3122499}, []float32{0.6, 0.8}
	names := func(stages string) string {
		var out []string
		for _, x := range c.run(t, stages).Candidates {
			out = append(out, strings.TrimSpace(x.Text))
		}
		return strings.Join(out, "|")
	}
	want(t, "text and cosine", names("- lexical\n- dedupe"), "Text a 0 0.|Text a 0 1.|Text d 0 0.")
	want(t, "a higher threshold", names("- lexical\n- dedupe: {cosine: 0.96}"), "Text a 0 0.|Text c 0 0.|Text a 0 1.|Text d 0 0.")
	want(t, "text alone", names("- lexical\n- dedupe: {cosine: 1}"), "Text a 0 0.|Text c 0 0.|Text a 0 1.|Text d 0 0.")
	want(t, "as deep as it looks", names("- lexical\n- dedupe: {depth: 2}"), "Text a 0 0.|Text c 0 0.|Text a 0 1.|Text d 0 0.")
	got := c.run(t, "- lexical\n- dedupe")
	if d := got.Trace[1].Dropped; len(d) != 2 || d[0].Why != "the same text as rank 1" || !strings.HasPrefix(d[1].Why, "cosine 0.950 to rank 1") {
		t.Errorf("dropped %+v", d)
	}
	// After a selecting stage it thins only the context.
	got = c.run(t, "- lexical\n- limit: {k: 4}\n- dedupe")
	want(t, "context", got.Context, []int{0, 3})
	want(t, "ranking", len(got.Candidates), 5)
}

// TestDedupesThresholdIsOfTheVectorsEncoder: a calibrated threshold is that of the pack whose
// encoder made the vectors.
func TestDedupesThresholdIsOfTheVectorsEncoder(t *testing.T) {
	const at = 0.95 // the cosine of both
	near := func(info map[string]float64, second *scriptedSecond) *scriptedCorpus {
		c := corpus([]int{2})
		c.lexical[passage(0, 0, 0)], c.lexical[passage(0, 0, 1)] = 2, 1
		c.vectors[passage(0, 0, 0)], c.vectors[passage(0, 0, 1)] = []float32{1, 0}, []float32{at, 0.3122499}
		c.readers = everyOp(func(string) float32 { return 0 })
		c.readers.info.Calibrated = info
		c.second = second
		return c
	}
	for _, x := range []struct {
		name   string
		corpus *scriptedCorpus
		kept   int
		why    string
	}{
		{"above it", near(map[string]float64{"dedupe": 0.94}, nil), 1, "1 of the first 2 repeat"},
		{"below it", near(map[string]float64{"dedupe": 0.96}, nil), 2, "0 of the first 2 repeat"},
		{"a pack that has none", near(nil, nil), 1, "the model pack scripted 1 has no threshold \"dedupe\", so the published 0.9 counts"},
		{"the second encoder's", near(map[string]float64{"dedupe": 0.94}, &scriptedSecond{calibrated: map[string]float64{"dedupe": 0.96}}), 2, "0 of the first 2 repeat"},
		{"the second encoder's, which is less", near(map[string]float64{"dedupe": 0.96}, &scriptedSecond{calibrated: map[string]float64{"dedupe": 0.94}}), 1, "1 of the first 2 repeat"},
		{"the second encoder is away", near(map[string]float64{"dedupe": 0.94}, &scriptedSecond{unavailable: true}), 2, "texts are compared and vectors are not"},
	} {
		got := x.corpus.run(t, "- lexical\n- dedupe: {cosine: calibrated}")
		if why := got.Trace[1].Why; len(got.Candidates) != x.kept || !strings.Contains(why, x.why) {
			t.Errorf("%s: %d are kept, want %d (%s)", x.name, len(got.Candidates), x.kept, why)
		}
	}
	// A cosine equal to the threshold is not above it.
	c := near(nil, nil)
	c.vectors[passage(0, 0, 1)] = []float32{0.75, 0.6614378}
	want(t, "at the threshold", len(c.run(t, "- lexical\n- dedupe: {cosine: 0.75}").Candidates), 2)
	want(t, "just above", len(c.run(t, "- lexical\n- dedupe: {cosine: 0.7499}").Candidates), 1)
	// With 1 vectors do not count, although the computed cosine of equal vectors may be slightly
	// above 1.
	c.vectors[passage(0, 0, 1)] = []float32{1.0001, 0}
	want(t, "no vectors", len(c.run(t, "- lexical\n- dedupe: {cosine: 1}").Candidates), 2)
	want(t, "the same vectors", len(c.run(t, "- lexical\n- dedupe: {cosine: 0.99}").Candidates), 1)
	want(t, "one is looked at", len(c.run(t, "- lexical\n- dedupe: {cosine: 0.99, depth: 1}").Candidates), 2)
}
