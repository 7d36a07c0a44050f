package ingest

// The step after the encoding of passages: which passages of a document belong together (SAKI-RAG's
// SentenceAttnLinker).

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// LinksKept is the maximum number of links kept per passage.
const LinksKept = 10

// encodeAndLink returns the vectors of documents' passages, and their links. inputs holds the
// passages of one document after the other, counts the number of passages of each. stage names the
// caller's stage in metrics.
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

// linked returns the links of documents. vectors holds the passages of one document after the
// other, counts the number of passages of each. If the model pack has no graph for linking, all
// links are nil.
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
		// No document is at fault: the server's models have changed since Info.
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

// linksOf converts a document's links to the form in which they are stored.
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
