package ingest

// Part of the second stage: sections become passages with vectors and links in one request to the
// model server, where it can do so.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// encodeTogether cuts and encodes the drafts in one request, except those that the model server
// returns undone and those of collections of the second encoder, which get their vectors later.
func (a *Activities) encodeTogether(ctx context.Context, drafts []*draft, by schema.Segmentation) error {
	var ask []wire.SegmentEncodeDocument
	var of []*draft
	for _, d := range drafts {
		if d.text.Later == nil {
			ask, of = append(ask, d.unsegmented()), append(of, d)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	defer timed(ctx, "index", "model")()
	result, err := a.models.SegmentEncode(ctx, wire.LaneBulk, by, ask, LinksKept)
	if err != nil {
		return fmt.Errorf("cut and encode %d documents: %w", len(ask), err)
	}
	for i, m := range result {
		if m != nil {
			of[i].take(m)
		}
	}
	return nil
}

// unsegmented returns the draft as it is sent to the model server.
func (d *draft) unsegmented() wire.SegmentEncodeDocument {
	out := wire.SegmentEncodeDocument{Title: d.text.Title, Sections: make([]wire.SegmentEncodeSection, len(d.text.Sections))}
	for i, sec := range d.text.Sections {
		s := wire.SegmentEncodeSection{Text: sec.Text, Sentences: make([]int, len(d.sentences[i]))}
		if n := len(sec.HeadingPath); n > 0 {
			s.Heading = sec.HeadingPath[n-1] // text.InContext uses only the last one
		}
		for j, r := range d.sentences[i] {
			s.Sentences[j] = r.End - r.Start
		}
		out.Sections[i] = s
	}
	return out
}

// take fills in the passages that the model server made.
func (d *draft) take(m *wire.SegmentEncodeResult) {
	for i := range d.text.Sections {
		sec := &d.text.Sections[i]
		sec.Passages = make([]schema.Passage, len(m.Passages[i]))
		at := 0
		for j, length := range m.Passages[i] {
			sec.Passages[j] = schema.Passage{ID: schema.NewID(), SectionID: sec.ID, Ordinal: j, Start: at, End: at + length, Tokens: m.Tokens[i][j]}
			at += length
		}
	}
	d.result = m
}

// vectorsAndLinks returns the vectors and links of a draft that was made in one request. If the
// document has too many passages to be linked in that request, it is linked here.
func (a *Activities) vectorsAndLinks(ctx context.Context, d *draft) (batch.Vectors, batch.Links, error) {
	m := d.result
	vectors := batch.NewVectors(m.Space, m.Vectors.Dimension, m.Vectors.Data)
	switch {
	case m.Unlinked:
		defer timed(ctx, "index", "link")()
		links, err := linked(ctx, a.models, m.Space, m.Vectors, []int{m.Vectors.Len()})
		if err != nil {
			return vectors, nil, err
		}
		return vectors, links[0], nil
	case m.Links == nil:
		return vectors, nil, nil
	}
	return vectors, linksOf(m.Links), nil
}
