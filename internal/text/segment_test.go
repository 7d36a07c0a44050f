package text

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"pgregory.net/rapid"
)

// passagesOf cuts s with the given scores and returns the passages' texts.
func passagesOf(t *testing.T, s string, scores []float64, g schema.Segmentation) []string {
	t.Helper()
	got, err := Passages(s, Sentences(s), scores, g)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range got {
		out = append(out, s[p.Start:p.End])
	}
	return out
}

// complete fills in the defaults of g.
func complete(t *testing.T, g schema.Segmentation) schema.Segmentation {
	t.Helper()
	g, err := g.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPassagesCutBelowScore(t *testing.T) {
	g := schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 400, Threshold: 0.55, MaxTokens: 400}
	s := "Cats sleep. They purr. Stocks fell. Bonds rose."
	got := passagesOf(t, s, []float64{0.9, 0.1, 0.55}, g)
	want := []string{"Cats sleep. They purr. ", "Stocks fell. Bonds rose."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHeadingJoinsWhatFollows(t *testing.T) {
	g := schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 400, Threshold: 0.55, MinTokens: 4, MaxTokens: 400}
	s := "The text before it is long.\n\nHistory\n\nIt was founded in 1850 by two men."
	got := passagesOf(t, s, []float64{0.5, 0.0}, g)
	want := []string{"The text before it is long.\n\n", "History\n\nIt was founded in 1850 by two men."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A heading at the end can only join the text before it.
	s = "The text before it is long.\n\nHistory"
	if got := passagesOf(t, s, []float64{0.1}, g); !slices.Equal(got, []string{s}) {
		t.Errorf("got %q", got)
	}
}

func TestShortSentenceJoinsTheCloser(t *testing.T) {
	g := schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 400, Threshold: 0.55, MinTokens: 3, MaxTokens: 400}
	s := "The cat sat on the mat. Yes. The dog stood on the log."
	if got := passagesOf(t, s, []float64{0.4, 0.2}, g); got[0] != "The cat sat on the mat. Yes. " {
		t.Errorf("got %q", got)
	}
	if got := passagesOf(t, s, []float64{0.2, 0.4}, g); got[1] != "Yes. The dog stood on the log." {
		t.Errorf("got %q", got)
	}
}

func TestLongPassageIsCutAtItsWeakestLink(t *testing.T) {
	g := schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 400, Threshold: 0.1, MaxTokens: 12}
	s := "One two three four. Five six seven eight. Nine ten more words. Last four words here."
	got := passagesOf(t, s, []float64{0.9, 0.3, 0.8}, g)
	want := []string{"One two three four. Five six seven eight. ", "Nine ten more words. Last four words here."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCoarseChunksFillWithParagraphs(t *testing.T) {
	p := "One two three four. Five six seven eight.\n\n" // 10 tokens, 2 sentences
	s := p + p + p + strings.Repeat("A b c d. ", 5)
	sentences := Sentences(s)
	got := coarseChunks(s, sentences, tokenCounts(s, sentences), 20)
	want := []Range{{0, 4}, {4, 6}, {6, 10}, {10, 11}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPassagesRejectsWhatDoesNotTile(t *testing.T) {
	g := complete(t, schema.Segmentation{})
	s := "One. Two."
	for name, err := range map[string]error{
		"scores":   second(Passages(s, Sentences(s), nil, g)),
		"gap":      second(Passages(s, []Range{{0, 4}, {5, 9}}, []float64{1}, g)),
		"short":    second(Passages(s, []Range{{0, 4}}, nil, g)),
		"settings": second(Passages(s, Sentences(s), []float64{1}, schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 1, MaxTokens: 1, MinTokens: 2})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestPassagesTileAndKeepBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		maxTokens := rapid.IntRange(1, 60).Draw(t, "max")
		g := schema.Segmentation{
			By:           schema.BySegmenter,
			CoarseTokens: rapid.IntRange(1, 80).Draw(t, "l"),
			Threshold:    schema.SplitScore,
			MaxTokens:    maxTokens,
			MinTokens:    rapid.IntRange(0, maxTokens).Draw(t, "min"),
		}
		sentences := Split(s, Sentences(s), g.MaxTokens)
		var scores []float64
		for range max(len(sentences)-1, 0) {
			scores = append(scores, rapid.Float64Range(0, 1).Draw(t, "score"))
		}
		chunks := coarseChunks(s, sentences, tokenCounts(s, sentences), g.CoarseTokens)
		at := 0
		for _, c := range chunks {
			if c.Start != at || c.End <= c.Start {
				t.Fatalf("chunk %v does not continue at %d", c, at)
			}
			at = c.End
			n := 0
			for _, r := range sentences[c.Start:c.End] {
				n += CountTokens(r.Of(s))
			}
			if n > g.CoarseTokens && c.End-c.Start > 1 {
				t.Fatalf("chunk of %d tokens, l is %d", n, g.CoarseTokens)
			}
		}
		if at != len(sentences) {
			t.Fatalf("chunks end at sentence %d of %d", at, len(sentences))
		}

		passages, err := Passages(s, sentences, scores, g)
		if err != nil {
			t.Fatal(err)
		}
		var ranges []Range
		for i, p := range passages {
			ranges = append(ranges, Range{p.Start, p.End})
			if p.Ordinal != i || p.Tokens != CountTokens(s[p.Start:p.End]) {
				t.Fatalf("passage %d: %+v", i, p)
			}
			if i > 0 && p.Tokens > 0 && passages[i-1].Tokens+p.Tokens <= g.MaxTokens/2 && min(p.Tokens, passages[i-1].Tokens) < g.MinTokens {
				t.Fatalf("passages %d and %d of %d and %d tokens stay apart below %d", i-1, i, passages[i-1].Tokens, p.Tokens, g.MinTokens)
			}
		}
		checkTiles(t, s, ranges)
	})
}

// TestOnlyTheLowestNearbyScoreIsCut: scores fall and rise again around one change of subject.
func TestOnlyTheLowestNearbyScoreIsCut(t *testing.T) {
	s := "One two. Two three. Three four. Four five. Five six. Six seven."
	scores := []float64{0.9, 0.3, 0.2, 0.3, 0.3}
	for apart, want := range map[int][]string{
		1: {"One two. Two three. ", "Three four. ", "Four five. ", "Five six. ", "Six seven."},
		2: {"One two. Two three. Three four. ", "Four five. Five six. ", "Six seven."}, // among equal scores the last
		3: {"One two. Two three. Three four. ", "Four five. Five six. Six seven."},
	} {
		got := cutBy(t, s, scores, schema.Segmentation{By: schema.BySegmenter, Threshold: 0.5, Apart: apart, MinTokens: 1})
		if !slices.Equal(got, want) {
			t.Errorf("%d apart: %q, want %q", apart, got, want)
		}
	}
}
