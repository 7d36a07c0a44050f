package search

// This file loads the vectors of segments of the lexical index into memory.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"
	"golang.org/x/sync/singleflight"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// Whether every live version with passages has its entry in the index.
	indexedGenerationSQL = `
SELECT c.generation, NOT EXISTS (
    SELECT FROM documents d JOIN versions v ON v.tenant_id = $1 AND v.id = d.live_version_id
    WHERE d.tenant_id = $1 AND d.collection_id = c.id AND d.deleted_at IS NULL AND v.passage_count > 0 AND NOT EXISTS (
        SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.version_id = v.id AND e.generation = c.generation AND NOT e.dead))
FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL`

	segmentGenerationsSQL = `
SELECT count(*), coalesce(min(generation), 0), coalesce(max(generation), 0) FROM lexical_segments
WHERE tenant_id = $1 AND collection_id = $2 AND id = ANY ($3)`

	// The vectors of versions, in the order of their passages.
	versionVectorsSQL = `
SELECT p.version_id, p.id, v.embedding
FROM sections s
JOIN passages p ON p.tenant_id = $1 AND p.section_id = s.id AND p.generation = $3
JOIN %s v ON v.tenant_id = $1 AND v.passage_id = p.id AND v.shard = ANY ($4::uuid[])
WHERE s.tenant_id = $1 AND s.version_id = ANY ($2) AND v.space_id = $5
ORDER BY p.version_id, s.ordinal, p.ordinal`
)

// indexedGeneration tells the live generation of a collection and whether the
// index has all of it.
func (s *SearchStore) indexedGeneration(ctx context.Context, tenant, collection uuid.UUID) (knownState, error) {
	var out knownState
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, indexedGenerationSQL, tenant, collection).Scan(&out.generation, &out.indexed)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("collection %s: %w", collection, schema.ErrNotFound)
		}
		return err
	})
	return out, err
}

// segments returns the vectors of a view's segments, in its order. Those that
// are not in memory are loaded with one statement; of several callers that want
// the same one loads.
func (v *MemoryVectors) segments(ctx context.Context, key knownKey, view *lexical.View) ([]*dense.Segment, error) {
	out := make([]*dense.Segment, len(view.Segments))
	var missing []int
	var name strings.Builder
	name.WriteString(key.tenant.String() + key.collection.String())
	for i, s := range view.Segments {
		if out[i] = v.cache.Get(dense.SegmentKey{Tenant: key.tenant, Segment: s.ID}); out[i] == nil {
			missing = append(missing, i)
			name.WriteString(s.ID.String())
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	loaded, err := loadOnce(ctx, &v.loads, name.String(), func() ([]*dense.Segment, error) { return v.load(ctx, key, view, missing) })
	if err != nil {
		return nil, err
	}
	for i, s := range loaded {
		out[missing[i]] = s
	}
	return out, nil
}

// loadOnce has one of several callers with the same name load. When that one's
// call is given up or its time is over, the others' are not: they load for
// themselves.
func loadOnce[T any](ctx context.Context, group *singleflight.Group, name string, load func() (T, error)) (T, error) {
	loaded, err, _ := group.Do(name, func() (any, error) { return load() })
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return load()
	}
	out, _ := loaded.(T)
	return out, err
}

// vectorRows is where a version's vectors go.
type vectorRows struct {
	segment           *dense.Segment
	entry, first, end int
}

// load makes segments. What others in memory have of them is copied; dead
// entries, which nobody will see again, are left out.
func (v *MemoryVectors) load(ctx context.Context, key knownKey, view *lexical.View, missing []int) ([]*dense.Segment, error) {
	ids := make([]uuid.UUID, len(missing))
	for i, m := range missing {
		ids[i] = view.Segments[m].ID
	}
	var out []*dense.Segment
	err := v.store.db.ReadTenant(ctx, key.tenant, func(ctx context.Context, tx pgx.Tx) error {
		place, space, err := segmentsPlace(ctx, tx, key, ids)
		if err != nil {
			return err
		}
		have := v.cache.Of(key.tenant, key.collection, place.generation)
		wanted := map[uuid.UUID][]vectorRows{}
		out = make([]*dense.Segment, len(missing))
		for i, m := range missing {
			d := view.Segments[m].Directory
			s := dense.NewSegment(key.collection, place.generation, space, place.dimension, d.Len(), view.Segments[m].Passages())
			out[i] = s
			for e := range d.Len() {
				at := d.Entry(e)
				first, end := at.FirstPassage, at.FirstPassage+at.Passages
				switch {
				case view.Dead[at.ID]:
				case slices.ContainsFunc(have, func(from *dense.Segment) bool { return s.Copy(at.Version, from, first, end) }):
					s.Hold(e, at.Version, first, end)
				default:
					wanted[at.Version] = append(wanted[at.Version], vectorRows{s, e, first, end})
				}
			}
		}
		return fillSegments(ctx, tx, key.tenant, *place, wanted)
	})
	if err != nil {
		return nil, fmt.Errorf("load the vectors of %d segments: %w", len(missing), err)
	}
	for i, s := range out {
		v.cache.Put(dense.SegmentKey{Tenant: key.tenant, Segment: ids[i]}, s)
	}
	return out, nil
}

// segmentsPlace returns where the vectors of segments are, if they are of the
// live generation.
func segmentsPlace(ctx context.Context, tx pgx.Tx, key knownKey, segments []uuid.UUID) (*vectorPlace, string, error) {
	place, space, err := readVectorPlace(ctx, tx, key.tenant, key.collection)
	if err != nil {
		return nil, "", err
	}
	var n, lowest, highest int
	if err := tx.QueryRow(ctx, segmentGenerationsSQL, key.tenant, key.collection, segments).Scan(&n, &lowest, &highest); err != nil {
		return nil, "", fmt.Errorf("read the segments' generation: %w", err)
	}
	if place == nil || n != len(segments) || lowest != place.generation || highest != place.generation {
		return nil, "", errNotInMemory
	}
	return place, space, nil
}

// fillSegments reads the vectors that are wanted. An entry that has not as many
// as it should is not held.
func fillSegments(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, p vectorPlace, wanted map[uuid.UUID][]vectorRows) error {
	versions := make([]uuid.UUID, 0, len(wanted))
	for id := range wanted {
		versions = append(versions, id)
	}
	if len(versions) == 0 {
		return nil
	}
	shards := []uuid.UUID{uuid.Nil}
	if p.shard != nil {
		shards = append(shards, *p.shard)
	}
	rows, err := tx.Query(ctx, fmt.Sprintf(versionVectorsSQL, store.VectorTable(p.dimension)), tenant, versions, p.generation, shards, p.spaceID)
	if err != nil {
		return err
	}
	counts := make(map[uuid.UUID]int, len(wanted))
	var version, passage uuid.UUID
	var embedding pgvector.HalfVector
	if _, err := pgx.ForEachRow(rows, []any{&version, &passage, &embedding}, func() error {
		for _, to := range wanted[version] {
			if row := to.first + counts[version]; row < to.end {
				to.segment.IDs[row] = passage
				copy(to.segment.Row(row), embedding.Slice())
			}
		}
		counts[version]++
		return nil
	}); err != nil {
		return fmt.Errorf("read vectors: %w", err)
	}
	for version, places := range wanted {
		for _, to := range places {
			if counts[version] == to.end-to.first {
				to.segment.Hold(to.entry, version, to.first, to.end)
			}
		}
	}
	return nil
}
