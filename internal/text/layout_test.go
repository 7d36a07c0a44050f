package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-rag/sluice/schema"
	"pgregory.net/rapid"
)

// setText lays a text out, with 10 points per character and a line for each line, and returns its
// layout.
func setText(s string, page int) []byte {
	var inks []CharBox
	x, y := 50.0, 700.0
	for _, r := range s {
		switch {
		case r == '\n':
			x, y = 50, y-20
			continue
		case !unicode.IsSpace(r):
			inks = append(inks, CharBox{r, schema.Box{Page: page, Left: x, Bottom: y, Right: x + 10, Top: y + 12}})
		}
		x += 10
	}
	return LayoutOf(s, inks)
}

func TestBoxesOfARange(t *testing.T) {
	s := "The quick brown fox\njumps over the dog"
	layout := setText(s, 3)
	start, end := strings.Index(s, "brown"), strings.Index(s, "the dog")
	got, err := Boxes(layout, s, start, end)
	want := []schema.Box{
		{Page: 3, Left: 150, Bottom: 700, Right: 240, Top: 712},
		{Page: 3, Left: 50, Bottom: 680, Right: 150, Top: 692},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("boxes %+v (%v), want %+v", got, err, want)
	}
	if got, err := Boxes(nil, s, 0, 5); err != nil || got != nil {
		t.Errorf("a text without a layout has boxes %v (%v)", got, err)
	}
}

// TestLayoutOfAChangedText: inserted text has no box, and omitted text moves no other boxes.
func TestLayoutOfAChangedText(t *testing.T) {
	page := "coun-\ntries rose"
	inks := func() (out []CharBox) {
		x := 0.0
		for _, r := range page {
			if !unicode.IsSpace(r) {
				out = append(out, CharBox{r, schema.Box{Page: 1, Left: x, Right: x + 5, Top: 10, Bottom: 0}})
			}
			x += 5
		}
		return out
	}()
	s := "countries | rose"
	layout := LayoutOf(s, inks)
	got, err := Boxes(layout, s, strings.Index(s, "rose"), len(s))
	if err != nil || len(got) != 1 || got[0].Left != 60 || got[0].Right != 80 {
		t.Errorf("rose stands in %+v (%v)", got, err)
	}
	if got, err := Boxes(layout, s, strings.Index(s, "|"), strings.Index(s, "|")+1); err != nil || len(got) != 0 {
		t.Errorf("a bar stands in %+v (%v)", got, err)
	}
}

// TestSectionsKeepTheLayout: however a document is cut into sections, each of their words keeps its
// box.
func TestSectionsKeepTheLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,9}`), 20, 120).Draw(t, "words")
		var blocks []schema.Block
		at := 0
		for at < len(words) {
			n := min(rapid.IntRange(1, 30).Draw(t, "length"), len(words)-at)
			var b strings.Builder
			for i, w := range words[at : at+n] {
				if i > 0 {
					b.WriteString(rapid.SampledFrom([]string{" ", "\n"}).Draw(t, "gap"))
				}
				b.WriteString(w)
			}
			page := len(blocks) + 1
			block := schema.Block{Kind: schema.BlockParagraph, Text: b.String(), Page: page, Layout: setText(b.String(), page)}
			if rapid.IntRange(0, 4).Draw(t, "plain") == 0 {
				block.Layout = nil
			}
			blocks = append(blocks, block)
			at += n
		}
		for _, s := range Sections(schema.Parsed{Blocks: blocks}, rapid.IntRange(5, 60).Draw(t, "limit")) {
			for i := 0; i < len(s.Text); {
				end := i
				for end < len(s.Text) && s.Text[end] != ' ' && s.Text[end] != '\n' {
					end++
				}
				if end > i {
					boxes, err := Boxes(s.Layout, s.Text, i, end)
					if err != nil {
						t.Fatal(err)
					}
					page := s.PageAt(i)
					switch {
					case blocks[page-1].Layout == nil && len(boxes) > 0:
						t.Fatalf("%q has no place, and boxes %v", s.Text[i:end], boxes)
					case blocks[page-1].Layout != nil && (len(boxes) != 1 || boxes[0].Page != page || boxes[0].Right-boxes[0].Left != 10*float64(end-i)):
						t.Fatalf("%q on page %d has boxes %v", s.Text[i:end], page, boxes)
					}
				}
				i = end + 1
			}
		}
	})
}

func FuzzDecodeLayout(f *testing.F) {
	f.Add(setText("a b\nc", 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		runs, err := DecodeLayout(data)
		if err != nil {
			return
		}
		again, err := DecodeLayout(EncodeLayout(runs))
		if err != nil || len(again) != len(runs) {
			t.Errorf("%d runs became %d (%v)", len(runs), len(again), err)
		}
	})
}
