package retrieval

// The stage "dense": the passages whose vectors are nearest to the question's,
// by inner product of unit vectors, searched exactly. Parameter: k, how many.

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type dense struct{ k int }

func readDense(p *parameters) stage { return dense{k: p.whole("k", 10, 1, MaxK)} }

func (dense) name() string { return "dense" }

func (d dense) run(ctx context.Context, t *task, in []schema.Candidate) ([]schema.Candidate, string, error) {
	vectors, space, err := t.model.Encode(ctx, wire.LaneInteractive, []string{t.query.Text})
	if err != nil {
		return nil, "", fmt.Errorf("encode the question: %w", err)
	}
	if vectors.Len() != 1 {
		return nil, "", fmt.Errorf("encode the question: the model server gave %d vectors for 1 text", vectors.Len())
	}
	vector := vectors.Row(0)
	if isZero(vector) {
		return in, "the model knows no word of the question", nil
	}
	k := d.k
	if t.query.K > 0 {
		k = t.query.K
	}
	hits, err := t.index.Nearest(ctx, NearestQuery{Principal: t.query.Principal, Collection: t.query.Collection,
		Space: space, Vector: vector, Filter: t.query.Filter, K: k})
	if err != nil {
		return nil, "", err
	}
	if len(hits) == 0 {
		return in, "no passage of the collection is ready, visible and matches the filter", nil
	}
	out := in
	for _, h := range hits {
		c, err := h.candidate(d.name())
		if err != nil {
			return nil, "", err
		}
		out = append(out, c)
	}
	return out, fmt.Sprintf("similarity %.3f to %.3f in space %s", hits[0].Similarity, hits[len(hits)-1].Similarity, space), nil
}

var errBounds = errors.New("the passage lies outside its section's text")

// candidate is the hit with its text.
func (h Hit) candidate(origin string) (schema.Candidate, error) {
	p := h.Passage
	if p.Start < 0 || p.End > len(h.Section.Text) || p.Start >= p.End {
		return schema.Candidate{}, fmt.Errorf("passage %s [%d, %d): %w", p.ID, p.Start, p.End, errBounds)
	}
	return schema.Candidate{
		Passage: p.ID, Document: h.Document, ExternalID: h.ExternalID, Title: cmp.Or(h.Title, h.ExternalID),
		HeadingPath: h.Section.HeadingPath, Page: h.Section.PageAt(p.Start), Location: h.Section.Location(p.Start),
		Spans: []schema.Span{{Version: h.Version, Section: h.Section.ID, Start: p.Start, End: p.End}},
		Text:  h.Section.Text[p.Start:p.End], Tokens: p.Tokens,
		Score: h.Similarity, Scores: map[string]float64{origin: h.Similarity}, Origin: origin,
	}, nil
}

func isZero(v []float32) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}
