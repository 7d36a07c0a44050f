package stage

// This file stores the input of a selecting stage, so that the selection can be repeated without a
// new search.

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

// reserve is the stored input of a selecting stage.
type reserve struct {
	Generation int         `json:"generation"`
	Text       string      `json:"text"` // the question in its wording at that time
	Unit       schema.Unit `json:"unit"`
	Items      []pooled    `json:"items"`
}

// pooled is an item as it is stored.
type pooled struct {
	Ref     lexical.Ref        `json:"ref,omitzero"`
	Cluster uuid.UUID          `json:"cluster,omitzero"`
	With    lexical.Ref        `json:"with,omitzero"`
	From    uuid.UUID          `json:"from,omitzero"`
	Best    *lexical.Ref       `json:"best,omitempty"`
	Shows   []pooledRef        `json:"shows,omitempty"`
	Score   float64            `json:"score"`
	Scores  map[string]float64 `json:"scores,omitempty"`
	Origin  string             `json:"origin,omitempty"`
}

type pooledRef struct {
	Ref   lexical.Ref `json:"ref"`
	Start int         `json:"start,omitempty"`
	End   int         `json:"end,omitempty"`
}

// Reserve encodes the input of a selecting stage.
func (t *Task) Reserve(in Candidates) ([]byte, error) {
	p := reserve{Generation: t.state.Generation, Text: t.query.Text, Unit: in.unit, Items: make([]pooled, len(in.items))}
	for i, c := range in.items {
		p.Items[i] = pooled{Ref: c.ref, Cluster: c.cluster, With: c.with, From: c.from, Best: c.best, Score: c.score, Scores: c.scores.byName(), Origin: c.origin}
		for _, s := range c.shows {
			p.Items[i].Shows = append(p.Items[i].Shows, pooledRef{Ref: s.ref, Start: s.start, End: s.end})
		}
	}
	out, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("store the candidates that are selected from: %w", err)
	}
	return out, nil
}

func (p reserve) candidates() Candidates {
	out := Candidates{unit: p.Unit, items: make([]item, len(p.Items))}
	for i, c := range p.Items {
		out.items[i] = item{key: key{ref: c.Ref, cluster: c.Cluster, with: c.With}, from: c.From, best: c.Best, score: c.Score, scores: scoresByName(c.Scores), origin: c.Origin}
		for _, s := range c.Shows {
			out.items[i].shows = append(out.items[i].shows, extent{ref: s.Ref, start: s.Start, end: s.End})
		}
	}
	return out
}

// Restore decodes the input of a selecting stage, and restores the wording of the question. The
// generation must be the same.
func (t *Task) Restore(from []byte) (Candidates, error) {
	var p reserve
	if err := json.Unmarshal(from, &p); err != nil {
		return Candidates{}, fmt.Errorf("read the candidates that are selected from: %w", err)
	}
	if t.state.Generation != p.Generation {
		return Candidates{}, &retrieval.GenerationError{Collection: t.query.Collection, Asked: p.Generation, Live: t.state.Generation}
	}
	t.query.Text = p.Text
	return p.candidates(), nil
}
