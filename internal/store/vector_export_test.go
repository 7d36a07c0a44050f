package store

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

type TestHit struct {
	Passage    uuid.UUID
	Ref        lexical.Ref
	Similarity float64
}

func (s *Store) TestNearest(ctx context.Context, p schema.Principal, collection uuid.UUID, space string, v []float32, f schema.Filter, within []lexical.Ref, k int) ([]TestHit, error) {
	found, err := s.nearest(ctx, near{p, collection, space, v, f, within, k})
	var out []TestHit
	for _, n := range found {
		out = append(out, TestHit{n.passage, n.ref, n.similarity})
	}
	return out, err
}
