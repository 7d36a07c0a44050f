package text

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/schema"
)

func cutRecursively(t *testing.T, body string, characters int) []string {
	t.Helper()
	g, err := schema.Segmentation{By: schema.ByRecursion, MaxCharacters: characters}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Passages(body, Units(body, g), nil, g)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range got {
		out = append(out, strings.TrimSpace(body[p.Start:p.End]))
	}
	return out
}

func TestRecursiveCutsAtTheCoarsestSeparators(t *testing.T) {
	const body = "One is here. Two is here.\n\nThree is here.\n\nFour is first here. Five is here.\nSix is on a line here.\nSeven is on one, too. Eight is here."
	for _, c := range []struct {
		characters int
		want       []string
	}{
		{1000, []string{body}},
		// As many paragraphs as fit; the last one is too long for one passage, so as many of its
		// lines as fit.
		{50, []string{"One is here. Two is here.\n\nThree is here.", "Four is first here. Five is here.", "Six is on a line here.", "Seven is on one, too. Eight is here."}},
		{60, []string{"One is here. Two is here.\n\nThree is here.", "Four is first here. Five is here.\nSix is on a line here.", "Seven is on one, too. Eight is here."}},
		// Sentences, if a line is too long.
		{22, []string{"One is here.", "Two is here.", "Three is here.", "Four is first here.", "Five is here.", "Six is on a line here.", "Seven is on one, too.", "Eight is here."}},
		// Words, if a sentence is too long.
		{13, []string{"One is here.", "Two is here.", "Three is here", ".", "Four is first", "here.", "Five is here.", "Six is on a", "line here.", "Seven is on", "one, too.", "Eight is here", "."}},
	} {
		if got := cutRecursively(t, body, c.characters); !slices.Equal(got, c.want) {
			t.Errorf("%d characters:\n%q\nwant\n%q", c.characters, got, c.want)
		}
	}
}

func TestRecursivePassagesTileTheText(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		body := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"word", "Sentence ends.", "\n", "\n\n", " ", "A long line of several words without an end", "日本語。"}), 1, 60).Draw(r, "parts"), " ")
		g, err := schema.Segmentation{By: schema.ByRecursion, MaxCharacters: rapid.IntRange(2, 80).Draw(r, "characters")}.Complete()
		if err != nil {
			r.Fatal(err)
		}
		got, err := Passages(body, Units(body, g), nil, g)
		if err != nil {
			r.Fatal(err)
		}
		at := 0
		for _, p := range got {
			if p.Start != at || p.End <= p.Start {
				r.Fatalf("a passage [%d, %d) after %d", p.Start, p.End, at)
			}
			if n := len([]rune(strings.TrimSpace(body[p.Start:p.End]))); n > g.MaxCharacters {
				r.Fatalf("a passage of %d characters: %q", n, body[p.Start:p.End])
			}
			at = p.End
		}
		if at != len(body) {
			r.Fatalf("passages end at %d of %d", at, len(body))
		}
	})
}
