package text

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-rag/sluice/schema"
	"pgregory.net/rapid"
)

func heading(level int, s string) schema.Block {
	return schema.Block{Kind: schema.BlockHeading, Level: level, Text: s}
}

func para(s string) schema.Block { return schema.Block{Kind: schema.BlockParagraph, Text: s} }

// tokens returns n different tokens.
func tokens(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return strings.TrimSpace(b.String())
}

func TestSectionsAtHeadings(t *testing.T) {
	long := tokens(150)
	got := Sections(schema.Parsed{Blocks: []schema.Block{
		para("Before any heading. " + long),
		heading(1, "Guide"),
		heading(2, "Install"), para(long),
		heading(2, "Run"), para(long), para("More."),
		heading(3, "Flags"), para(long),
		heading(1, "End"), para(long),
	}}, 1000)
	var paths [][]string
	for _, s := range got {
		paths = append(paths, s.HeadingPath)
	}
	want := [][]string{nil, {"Guide", "Install"}, {"Guide", "Run"}, {"Guide", "Run", "Flags"}, {"End"}}
	if !reflect.DeepEqual(paths, want) {
		t.Errorf("paths %q, want %q", paths, want)
	}
	if !strings.HasPrefix(got[1].Text, "Guide\n\nInstall\n\nw0") {
		t.Errorf("a section's text lacks its headings: %q", got[1].Text[:30])
	}
}

func TestShortSectionsAreJoined(t *testing.T) {
	var blocks []schema.Block
	blocks = append(blocks, heading(1, "Glossary"))
	for i := range 200 {
		blocks = append(blocks, heading(2, fmt.Sprintf("Term %d", i)), para("It means this."))
	}
	blocks = append(blocks, heading(1, "Notes"), para(tokens(120)))
	got := Sections(schema.Parsed{Blocks: blocks}, 1000)
	if len(got) < 5 || len(got) > 20 {
		t.Errorf("200 short sections became %d", len(got))
	}
	for i, s := range got[:len(got)-1] {
		if !reflect.DeepEqual(s.HeadingPath, []string{"Glossary"}) {
			t.Errorf("section %d has path %q", i, s.HeadingPath)
		}
	}
	if last := got[len(got)-1]; !reflect.DeepEqual(last.HeadingPath, []string{"Notes"}) {
		t.Errorf("the last has path %q", last.HeadingPath)
	}
}

func TestLongTextIsCut(t *testing.T) {
	sentence := "The " + strings.TrimSpace(strings.Repeat("word ", 48)) + ". "
	got := Sections(schema.Parsed{Blocks: []schema.Block{heading(1, "Long"), para(strings.TrimSpace(strings.Repeat(sentence, 30)))}}, 1000)
	if len(got) != 2 {
		t.Fatalf("%d sections of 1,500 tokens", len(got))
	}
	for i, s := range got {
		if s.Tokens > 1000 || s.Tokens < 600 {
			t.Errorf("section %d has %d tokens: they should be about equal", i, s.Tokens)
		}
		if !strings.HasSuffix(s.Text, "word.") {
			t.Errorf("section %d is not cut at a sentence: %q", i, s.Text[len(s.Text)-20:])
		}
	}
	monster := Sections(schema.Parsed{Blocks: []schema.Block{para(strings.Repeat("word ", 5000))}}, 1000)
	for i, s := range monster {
		if s.Tokens > 1000 || !strings.HasSuffix(s.Text, "word") {
			t.Errorf("section %d of one long sentence: %d tokens, ends %q", i, s.Tokens, s.Text[len(s.Text)-10:])
		}
	}
	blob := Sections(schema.Parsed{Blocks: []schema.Block{para(strings.Repeat("x", 100_000))}}, 1000)
	for i, s := range blob {
		if s.Tokens > 1000 {
			t.Errorf("section %d of one long word has %d tokens", i, s.Tokens)
		}
	}
}

func TestPageMarks(t *testing.T) {
	on := func(page int, s string) schema.Block {
		return schema.Block{Kind: schema.BlockParagraph, Text: s, Page: page}
	}
	got := Sections(schema.Parsed{Blocks: []schema.Block{on(1, "One."), on(1, "Still."), on(2, "Two."), on(4, "Four.")}}, 1000)
	if len(got) != 1 {
		t.Fatalf("%d sections", len(got))
	}
	var at []string
	for _, m := range got[0].Pages {
		at = append(at, fmt.Sprint(m.Page, got[0].Text[m.Start:m.Start+3]))
	}
	if want := []string{"1One", "2Two", "4Fou"}; !reflect.DeepEqual(at, want) {
		t.Errorf("marks %q, want %q", at, want)
	}
}

func squash(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

func TestSectionsLoseNothing(t *testing.T) {
	kinds := []schema.BlockKind{schema.BlockHeading, schema.BlockParagraph, schema.BlockList, schema.BlockTable, schema.BlockCode}
	block := rapid.Custom(func(t *rapid.T) schema.Block {
		b := schema.Block{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Text: anyText().Draw(t, "text"), Page: rapid.IntRange(0, 3).Draw(t, "page")}
		if b.Kind == schema.BlockHeading {
			b.Level = rapid.IntRange(0, 6).Draw(t, "level")
		}
		return b
	})
	rapid.Check(t, func(t *rapid.T) {
		parsed := schema.Parsed{Blocks: rapid.SliceOfN(block, 0, 12).Draw(t, "blocks")}
		limit := rapid.IntRange(2, 120).Draw(t, "limit")
		var in, out strings.Builder
		for _, b := range parsed.Blocks {
			in.WriteString(Clean(b.Text))
		}
		for i, s := range Sections(parsed, limit) {
			out.WriteString(s.Text)
			if s.Ordinal != i || s.Text == "" || s.Text != strings.TrimSpace(s.Text) {
				t.Fatalf("section %d: ordinal %d, text %q", i, s.Ordinal, s.Text)
			}
			if s.Tokens != CountTokens(s.Text) || s.Tokens > limit+1 {
				t.Fatalf("section %d has %d tokens (says %d), limit %d: %q", i, CountTokens(s.Text), s.Tokens, limit, s.Text)
			}
			last := -1
			for _, m := range s.Pages {
				if m.Start <= last || m.Start >= len(s.Text) || m.Page < 1 {
					t.Fatalf("section %d: marks %v of %d bytes", i, s.Pages, len(s.Text))
				}
				last = m.Start
			}
		}
		if squash(in.String()) != squash(out.String()) {
			t.Fatalf("text in and out differ:\n%q\n%q", squash(in.String()), squash(out.String()))
		}
	})
}

func TestSentencesOfALongLineStayApart(t *testing.T) {
	line := strings.TrimSpace(strings.Repeat("The pump is loud. It leaks. ", 60))
	sections := Sections(schema.Parsed{Blocks: []schema.Block{{Kind: schema.BlockParagraph, Text: line}}}, 100)
	var texts []string
	for _, s := range sections {
		texts = append(texts, s.Text)
	}
	if len(texts) < 2 || strings.Join(texts, " ") != line {
		t.Errorf("%d sections: %q", len(texts), texts)
	}
}

func TestSectionsCarryLinks(t *testing.T) {
	long := strings.Repeat("One more line of the list\n", 300)
	sections := Sections(schema.Parsed{Blocks: []schema.Block{
		{Kind: schema.BlockHeading, Level: 1, Text: "A", Links: []string{"a"}},
		{Kind: schema.BlockParagraph, Text: strings.Repeat("word ", 200), Links: []string{"b", "a", "c"}},
		{Kind: schema.BlockHeading, Level: 1, Text: "B"},
		{Kind: schema.BlockList, Text: long, Links: []string{"d"}},
		{Kind: schema.BlockParagraph, Text: "After.", Links: []string{"d", "e"}},
	}}, 0)
	var got [][]string
	for _, s := range sections {
		got = append(got, s.Links)
	}
	if want := [][]string{{"a", "b", "c"}, {"d"}, {"d", "e"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}
