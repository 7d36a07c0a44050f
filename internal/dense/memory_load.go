package dense

// This file loads the vectors of segments of the lexical index into memory.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/sluice-rag/sluice/internal/lexical/search"
)

// segments returns the vectors of a view's segments, in its order. Those that are not cached are
// loaded with one statement. If several callers need the same segments, one of them loads them.
func (v *MemoryVectors) segments(ctx context.Context, key collectionKey, view *search.View) ([]*Segment, error) {
	out := make([]*Segment, len(view.Segments))
	var missing []int
	var name strings.Builder
	name.WriteString(key.tenant.String() + key.collection.String())
	for i, s := range view.Segments {
		if out[i] = v.cache.Get(SegmentKey{Tenant: key.tenant, Segment: s.ID}); out[i] == nil {
			missing = append(missing, i)
			name.WriteString(s.ID.String())
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	loaded, err := loadOnce(ctx, &v.loads, name.String(), func() ([]*Segment, error) { return v.load(ctx, key, view, missing) })
	if err != nil {
		return nil, err
	}
	for i, s := range loaded {
		out[missing[i]] = s
	}
	return out, nil
}

// loadOnce calls load once for concurrent callers with the same name. If the call's context is
// cancelled or its deadline passes, the other callers load for themselves.
func loadOnce[T any](ctx context.Context, group *singleflight.Group, name string, load func() (T, error)) (T, error) {
	loaded, err, _ := group.Do(name, func() (any, error) { return load() })
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return load()
	}
	out, _ := loaded.(T)
	return out, err
}

// vectorRows are the rows for a version's vectors.
type vectorRows struct {
	segment           *Segment
	entry, first, end int
}

// load makes segments. It copies the vectors that cached segments have, and leaves out dead
// entries, which no search will see again. An entry with a wrong number of vectors is not held.
func (v *MemoryVectors) load(ctx context.Context, key collectionKey, view *search.View, missing []int) ([]*Segment, error) {
	ids := make([]uuid.UUID, len(missing))
	for i, m := range missing {
		ids[i] = view.Segments[m].ID
	}
	var out []*Segment
	var missingRows map[uuid.UUID][]vectorRows
	var counts map[uuid.UUID]int
	read, err := v.store.ReadVectors(ctx, key.tenant, key.collection, ids, func(space string, generation, dimension int) []uuid.UUID {
		cachedSegments := v.cache.Of(key.tenant, key.collection, generation)
		out, missingRows, counts = make([]*Segment, len(missing)), map[uuid.UUID][]vectorRows{}, map[uuid.UUID]int{}
		for i, m := range missing {
			d := view.Segments[m].Directory
			s := NewSegment(key.collection, generation, space, dimension, d.Len(), view.Segments[m].Passages)
			out[i] = s
			for e := range d.Len() {
				entry := d.Entry(e)
				first, end := entry.FirstPassage, entry.FirstPassage+entry.Passages
				switch {
				case view.Dead[entry.ID]:
				case slices.ContainsFunc(cachedSegments, func(from *Segment) bool { return s.Copy(entry.Version, from, first, end) }):
					s.MarkFilled(e, entry.Version, first, end)
				default:
					missingRows[entry.Version] = append(missingRows[entry.Version], vectorRows{s, e, first, end})
				}
			}
		}
		return slices.Collect(maps.Keys(missingRows))
	}, func(version, passage uuid.UUID, vector []uint16) {
		for _, target := range missingRows[version] {
			if row := target.first + counts[version]; row < target.end {
				target.segment.Fill(row, passage, vector)
			}
		}
		counts[version]++
	})
	if err == nil && !read {
		err = errNotInMemory
	}
	if err != nil {
		return nil, fmt.Errorf("load the vectors of %d segments: %w", len(missing), err)
	}
	for version, targets := range missingRows {
		for _, target := range targets {
			if counts[version] == target.end-target.first {
				target.segment.MarkFilled(target.entry, version, target.first, target.end)
			}
		}
	}
	for i, s := range out {
		v.cache.Put(SegmentKey{Tenant: key.tenant, Segment: ids[i]}, s)
	}
	return out, nil
}
