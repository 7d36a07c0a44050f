package dense

// This file finds the vectors of passages in memory.

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/internal/lexical"
)

// VectorsOf implements retrieval.Vectors. It asks the store unless the vectors of the collection
// are in memory already: a few passages are not worth loading them.
func (v *MemoryVectors) VectorsOf(ctx context.Context, q PassagesQuery) (map[lexical.Ref][]float32, error) {
	found, err := v.ofInMemory(q)
	if errors.Is(err, errNotInMemory) {
		return v.store.VectorsOf(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("find the vectors of %d passages: %w", len(q.Passages), err)
	}
	return found, nil
}

func (v *MemoryVectors) ofInMemory(q PassagesQuery) (map[lexical.Ref][]float32, error) {
	tenant := q.Principal.Tenant
	loaded, _ := v.states.Load(collectionKey{tenant, q.Collection})
	state, _ := loaded.(collectionState)
	if q.View == nil || !state.indexed || !state.large.IsZero() || state.generation != q.Generation {
		return nil, errNotInMemory
	}
	segments := make([]*Segment, len(q.View.Segments))
	for i, s := range q.View.Segments {
		if segments[i] = v.cache.Get(SegmentKey{Tenant: tenant, Segment: s.ID}); segments[i] == nil || segments[i].Generation != q.Generation {
			return nil, errNotInMemory
		}
	}
	visible, err := q.View.Visible(q.Principal.Groups, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[lexical.Ref][]float32, len(q.Passages))
	for _, ref := range q.Passages {
		known := false
		for i, s := range segments {
			d := q.View.Segments[i].Directory
			for _, e := range d.EntriesOf(ref.Version) {
				known = true
				if !visible[i].Has(e) || ref.Section < 0 || ref.Passage < 0 || ref.Section >= d.Entry(e).Sections {
					continue
				}
				if !s.Filled(e) {
					return nil, errNotInMemory
				}
				if row, end := rowsOf(d, e, ref); row < end {
					out[ref] = singles(s.Row(row))
				}
			}
		}
		if !known {
			return nil, errNotInMemory // its version is newer than the view
		}
	}
	return out, nil
}

// singles converts a vector from the bits of half precision.
func singles(row []uint16) []float32 {
	out := make([]float32, len(row))
	for i, h := range row {
		out[i] = single(h) * halfScale
	}
	return out
}
