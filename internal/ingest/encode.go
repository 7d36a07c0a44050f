package ingest

// Part of the second stage: passages to vectors, and vectors to links.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
)

// encode returns the documents to write, with the vectors of their passages and the links between
// them. Documents of a collection of the second encoder get zero vectors, which that encoder
// replaces after they are written.
func (a *Activities) encode(ctx context.Context, drafts []*draft) ([]batch.Document, error) {
	docs := make([]batch.Document, len(drafts))
	var inputs []string
	var now []*batch.Document // those that are encoded now
	var counts []int
	for i, d := range drafts {
		docs[i] = batch.Document{Attempt: d.item, Text: d.text}
		if later := d.text.Later; later != nil {
			docs[i].Vectors = batch.NewVectors(later.Name, later.Dimension, make([]float32, d.text.Passages()*later.Dimension))
			continue
		}
		if d.result != nil {
			var err error
			if docs[i].Vectors, docs[i].Links, err = a.vectorsAndLinks(ctx, d); err != nil {
				return nil, err
			}
			continue
		}
		now, counts = append(now, &docs[i]), append(counts, d.text.Passages())
		for _, sec := range d.text.Sections {
			for _, p := range sec.Passages {
				inputs = append(inputs, Embedded(d.text.Title, sec.HeadingPath, sec.Text[p.Start:p.End]))
			}
		}
	}
	if len(now) == 0 {
		return docs, nil
	}
	vectors, links, space, err := encodeAndLink(ctx, a.models, inputs, counts, "index")
	if err != nil {
		return nil, err
	}
	for i, d := range now {
		d.Vectors, d.Links = batch.NewVectors(space, vectors[i].Dimension, vectors[i].Data), links[i]
	}
	return docs, nil
}

// Embedded returns the text that is embedded for a passage.
func Embedded(title string, headings []string, passage string) string {
	input, _ := text.InContext(title, headings, passage)
	return input
}
