package ingest

// What follows the encoding of passages: which of them belong together in
// their document (SAKI-RAG's SentenceAttnLinker).

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// LinksKept is how many links of a passage are kept.
const LinksKept = 10

// encodeAndLink makes the vectors of documents' passages, which follow each other, and their links:
// counts says how many passages each has, stage for what.
func encodeAndLink(ctx context.Context, m Models, inputs []string, counts []int, stage string) (vectors []wire.Vectors, links []batch.Links, space string, err error) {
	done := timed(ctx, stage, "model")
	all, space, err := m.Encode(ctx, wire.LaneBulk, inputs)
	done()
	if err != nil {
		return nil, nil, "", fmt.Errorf("encode %d passages: %w", len(inputs), err)
	}
	if all.Len() != len(inputs) {
		return nil, nil, "", fmt.Errorf("the model server sent %d vectors for %d passages", all.Len(), len(inputs))
	}
	defer timed(ctx, stage, "link")()
	if links, err = linked(ctx, m, space, all, counts); err != nil {
		return nil, nil, "", err
	}
	return documentsOf(all, counts), links, space, nil
}

// documentsOf divides the vectors of passages among their documents.
func documentsOf(all wire.Vectors, counts []int) []wire.Vectors {
	out := make([]wire.Vectors, len(counts))
	row := 0
	for i, n := range counts {
		out[i] = wire.Vectors{Dimension: all.Dimension, Data: all.Data[row*all.Dimension : (row+n)*all.Dimension]}
		row += n
	}
	return out
}

// linked finds the links of documents, whose passages' vectors follow each
// other: counts says how many each has. A model pack without a graph for it
// links nothing, and all are nil.
func linked(ctx context.Context, m Models, space string, vectors wire.Vectors, counts []int) ([]batch.Links, error) {
	out := make([]batch.Links, len(counts))
	info, err := m.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what the models can do: %w", err)
	}
	if !slices.Contains(info.Operations, wire.OpLink) {
		return out, nil
	}
	found, _, err := m.Link(ctx, wire.LaneBulk, space, documentsOf(vectors, counts), LinksKept)
	if errors.Is(err, schema.ErrInvalid) {
		// No document is at fault: the server has other models than a moment ago.
		err = fmt.Errorf("%w: %s", schema.ErrUnavailable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("link the passages of %d documents: %w", len(counts), err)
	}
	for i, n := range counts {
		if len(found) != len(counts) || len(found[i]) != n {
			return nil, fmt.Errorf("the model server did not send links for all passages of %d documents", len(counts))
		}
		out[i] = linksOf(found[i])
	}
	return out, nil
}

// linksOf are a document's links as they are stored.
func linksOf(found [][]wire.PassageLink) batch.Links {
	out := make(batch.Links, len(found))
	for p, of := range found {
		out[p] = make([]batch.Link, len(of))
		for j, l := range of {
			out[p][j] = batch.Link(l)
		}
	}
	return out
}
