package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/schema"
)

// cutBy cuts s by g; scores are those of s's units.
func cutBy(t *testing.T, s string, scores []float64, g schema.Segmentation) []string {
	t.Helper()
	g = complete(t, g)
	got, err := Passages(s, Units(s, g), scores, g)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range got {
		out = append(out, s[p.Start:p.End])
	}
	return out
}

func TestSimilarSentencesStayTogether(t *testing.T) {
	s := "Cats sleep. They purr. Stocks fell. Bonds rose."
	got := cutBy(t, s, []float64{0.8, 0.79, 0.95}, schema.Segmentation{By: schema.BySimilarity})
	if want := []string{"Cats sleep. They purr. ", "Stocks fell. Bonds rose."}; !slices.Equal(got, want) {
		t.Errorf("at 0.8: %q, want %q", got, want)
	}
	got = cutBy(t, s, []float64{0.8, 0.79, 0.95}, schema.Segmentation{By: schema.BySimilarity, Threshold: 0.79})
	if want := []string{s}; !slices.Equal(got, want) {
		t.Errorf("at 0.79: %q, want %q", got, want)
	}
}

// TestSimilarChunkStaysUnderItsCharacters: a passage is under the limit, not at it; white space at
// its end does not count.
func TestSimilarChunkStaysUnderItsCharacters(t *testing.T) {
	s := "Ten chars. Ten chars. Ten chars. Ten chars." // two have 21 characters
	same := []float64{1, 1, 1}
	for limit, want := range map[int][]string{
		22: {"Ten chars. Ten chars. ", "Ten chars. Ten chars."},
		21: {"Ten chars. ", "Ten chars. ", "Ten chars. ", "Ten chars."},
		33: {"Ten chars. Ten chars. Ten chars. ", "Ten chars."}, // three have 32 characters
	} {
		got := cutBy(t, s, same, schema.Segmentation{By: schema.BySimilarity, MaxCharacters: limit})
		if !slices.Equal(got, want) {
			t.Errorf("under %d: %q, want %q", limit, got, want)
		}
	}
}

func TestLongSentenceIsCutUnderTheCharacters(t *testing.T) {
	s := "One two three four five six seven. Über alles ißt größer."
	g := complete(t, schema.Segmentation{By: schema.BySimilarity, MaxCharacters: 20})
	var units []string
	for _, u := range Units(s, g) {
		units = append(units, u.Of(s))
	}
	want := []string{"One two three four ", "five six seven. ", "Über alles ißt ", "größer."}
	if !slices.Equal(units, want) {
		t.Errorf("units %q, want %q", units, want)
	}
	if got := cutBy(t, s, []float64{1, 1, 1}, g); !slices.Equal(got, want) {
		t.Errorf("passages %q, want %q", got, want)
	}
}

func TestEveryTwoSentences(t *testing.T) {
	g := schema.Segmentation{By: schema.BySentences}
	s := "One is here. Two is here. Three is here. Four is here. Five is here."
	want := []string{"One is here. Two is here. ", "Three is here. Four is here. ", "Five is here."}
	if got := cutBy(t, s, nil, g); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	g.Sentences = 3
	want = []string{"One is here. Two is here. Three is here. ", "Four is here. Five is here."}
	if got := cutBy(t, s, nil, g); !slices.Equal(got, want) {
		t.Errorf("by three: %q, want %q", got, want)
	}
	g.MaxTokens = 9 // "One is here." has 4
	want = []string{"One is here. Two is here. ", "Three is here. Four is here. ", "Five is here."}
	if got := cutBy(t, s, nil, g); !slices.Equal(got, want) {
		t.Errorf("within 9 tokens: %q, want %q", got, want)
	}
}

func TestHeadingsGoWithWhatFollows(t *testing.T) {
	s := "Before it is text.\n\nHistory\n\nEarly years\n\nIt began in 1850. Two men did it. Then a third came."
	want := []string{"Before it is text.\n\n", "History\n\nEarly years\n\nIt began in 1850. Two men did it. ", "Then a third came."}
	if got := cutBy(t, s, nil, schema.Segmentation{By: schema.BySentences}); !slices.Equal(got, want) {
		t.Errorf("by sentences: %q, want %q", got, want)
	}
	got := cutBy(t, s, []float64{0, 0, 0, 0.9, 0}, schema.Segmentation{By: schema.BySimilarity})
	if !slices.Equal(got, want) {
		t.Errorf("by similarity: %q, want %q", got, want)
	}
}

func TestRulesOfNoOrOneSentence(t *testing.T) {
	for _, by := range []string{schema.BySimilarity, schema.BySentences} {
		g := schema.Segmentation{By: by}
		if got := cutBy(t, "", nil, g); got != nil {
			t.Errorf("%s: nothing is %q", by, got)
		}
		if got := cutBy(t, "One.", nil, g); !slices.Equal(got, []string{"One."}) {
			t.Errorf("%s: one sentence is %q", by, got)
		}
	}
	g := complete(t, schema.Segmentation{By: schema.BySimilarity})
	if _, err := Passages("One. Two.", Sentences("One. Two."), nil, g); err == nil {
		t.Error("similarity without cosines: no error")
	}
}

func TestRulesTileAndKeepBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		g := schema.Segmentation{By: schema.BySentences, MaxTokens: rapid.IntRange(1, 60).Draw(t, "tokens")}
		if rapid.Bool().Draw(t, "similarity") {
			g.By, g.MaxCharacters = schema.BySimilarity, rapid.IntRange(2, 200).Draw(t, "characters")
		} else {
			g.Sentences = rapid.IntRange(1, 5).Draw(t, "sentences")
		}
		g, err := g.Complete()
		if err != nil {
			t.Fatal(err)
		}
		units := Units(s, g)
		checkTiles(t, s, units)
		var cosines []float64
		for range max(len(units)-1, 0) {
			cosines = append(cosines, rapid.Float64Range(-1, 1).Draw(t, "cosine"))
		}
		passages, err := Passages(s, units, cosines, g)
		if err != nil {
			t.Fatal(err)
		}
		var ranges []Range
		for i, p := range passages {
			body := s[p.Start:p.End]
			ranges = append(ranges, Range{p.Start, p.End})
			if p.Ordinal != i || p.Tokens != CountTokens(body) {
				t.Fatalf("passage %d: %+v", i, p)
			}
			if p.Tokens > g.MaxTokens {
				t.Fatalf("passage %d has %d tokens of at most %d: %q", i, p.Tokens, g.MaxTokens, body)
			}
			if n := utf8.RuneCountInString(strings.TrimSpace(body)); g.By == schema.BySimilarity && n >= g.MaxCharacters {
				t.Fatalf("passage %d has %d characters, not under %d: %q", i, n, g.MaxCharacters, body)
			}
			if first := slices.IndexFunc(units, func(u Range) bool { return u.Start == p.Start }); first < 0 {
				t.Fatalf("passage %d begins inside a sentence: %q", i, body)
			} else if i > 0 && g.By == schema.BySimilarity && cosines[first-1] >= g.Threshold {
				joined := s[passages[i-1].Start:units[first].End]
				if CountTokens(joined) <= g.MaxTokens && utf8.RuneCountInString(strings.TrimSpace(joined)) < g.MaxCharacters {
					t.Fatalf("passages %d and %d are apart at %g", i-1, i, cosines[first-1])
				}
			}
		}
		checkTiles(t, s, ranges)
	})
}
