package ingest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestADraftIsTakenAsItWouldBeCut: the lengths that the model server returns become the same
// passages that this program would make.
func TestADraftIsTakenAsItWouldBeCut(t *testing.T) {
	by, err := schema.Segmentation{By: schema.BySentences, Sentences: 2}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	parsed := schema.Parsed{Title: "Bees", Blocks: []schema.Block{
		{Kind: schema.BlockHeading, Level: 1, Text: "Colonies"}, {Kind: schema.BlockParagraph, Text: "Äpfel fall. Bees fly. Birds sing. Fish swim. Cats sleep."},
		{Kind: schema.BlockHeading, Level: 2, Text: "Queens"}, {Kind: schema.BlockParagraph, Text: strings.Repeat("One of many lives long. ", 5)}}}
	d, reason := sections(wire.Attempt{}, parsed, by)
	if reason != nil {
		t.Fatal(reason)
	}
	ask := d.unsegmented()
	if ask.Title != "Bees" || len(ask.Sections) != len(d.text.Sections) {
		t.Fatalf("asked %+v", ask)
	}
	made := &wire.SegmentEncodeResult{Space: "s", Vectors: wire.Vectors{Dimension: 1}}
	for i, s := range ask.Sections {
		at, ranges := 0, []text.Range(nil)
		for _, n := range s.Sentences {
			ranges = append(ranges, text.Range{Start: at, End: at + n})
			at += n
		}
		passages, err := text.Passages(s.Text, ranges, nil, by)
		if err != nil {
			t.Fatal(err)
		}
		var lengths, tokens []int
		for _, p := range passages {
			lengths, tokens = append(lengths, p.End-p.Start), append(tokens, p.Tokens)
			made.Vectors.Data, made.Links = append(made.Vectors.Data, 1), append(made.Links, []wire.PassageLink{{To: i, Weight: 0.5}})
		}
		made.Passages, made.Tokens = append(made.Passages, lengths), append(made.Tokens, tokens)
	}
	d.take(made)
	taken := passagesOf(d)
	if reason := d.cut(make([][]float64, len(d.text.Sections)), by); reason != nil {
		t.Fatal(reason)
	}
	if cut := passagesOf(d); len(taken) < 4 || !reflect.DeepEqual(taken, cut) {
		t.Errorf("taken as %+v, cut as %+v", taken, cut)
	}
	vectors, links, err := (&Activities{}).vectorsAndLinks(t.Context(), d)
	if err != nil || vectors.Len() != len(taken) || vectors.Space != "s" || len(links) != len(taken) || links[0][0].Weight != 0.5 {
		t.Errorf("%+v, %+v, %v", vectors, links, err)
	}
}

// passagesOf returns a draft's passages that have ids, with the ids cleared.
func passagesOf(d *draft) (out []schema.Passage) {
	for _, sec := range d.text.Sections {
		for _, p := range sec.Passages {
			if p.SectionID == sec.ID && p.ID != (schema.Passage{}).ID {
				p.ID = (schema.Passage{}).ID
				out = append(out, p)
			}
		}
	}
	return out
}
