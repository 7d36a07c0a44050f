package clusters

// This file relates the sections of documents without links by their vectors. To keep this cheap,
// sections that came together are compared with each other in memory, and with the collection's
// vectors only within a budget. A rebuild compares all of them.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Where a generation's vectors are, and how many passages are live.
	generationVectorsSQL = `
SELECT s.dimension,
       ARRAY(SELECT h.id FROM vector_shards h WHERE h.tenant_id = $1 AND h.collection_id = c.id AND h.generation = $3
             AND h.dimension = s.dimension AND h.retired_at IS NULL AND h.replaces = '{}' AND h.indexed IS NOT NULL),
       ARRAY(SELECT h.id FROM vector_shards h WHERE h.tenant_id = $1 AND h.collection_id = c.id AND h.generation = $3
             AND h.dimension = s.dimension AND h.retired_at IS NULL AND h.replaces = '{}' AND h.indexed IS NULL)
FROM collections c
JOIN spaces s ON s.id = CASE WHEN c.generation = $3 THEN c.space_id ELSE (
    SELECT g.space_id FROM generations g WHERE g.tenant_id = $1 AND g.collection_id = $2 AND g.number = $3) END
WHERE c.tenant_id = $1 AND c.id = $2`

	// A section's vector is the mean of its passages' vectors. The joins go from sections to
	// passages to vectors: if there are few vectors and no statistics yet, the planner would start
	// with all vectors and look at all sections for each.
	meanVectorsSQL = `
SELECT k.id, avg(v.embedding)::halfvec
FROM unnest($2::uuid[]) AS k(id)
CROSS JOIN LATERAL (SELECT p.id FROM passages p WHERE p.tenant_id = $1 AND p.section_id = k.id AND p.generation = $3 OFFSET 0) p
CROSS JOIN LATERAL (SELECT embedding FROM %s WHERE passage_id = p.id AND tenant_id = $1 AND shard = ANY ($4) OFFSET 0) v
GROUP BY k.id`
	// Passages near to one, including those of its own document, which are ignored.
	nearPassagesSQL = `
SELECT p.section_id, n.distance FROM (
    SELECT v.passage_id, v.embedding <#> $4 AS distance FROM %s v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ANY ($5)
    ORDER BY v.embedding <#> $4 LIMIT 32) n
CROSS JOIN LATERAL (SELECT id, section_id FROM passages WHERE tenant_id = $1 AND id = n.passage_id LIMIT 1) p
ORDER BY n.distance, p.id`

	// The vectors that nearPassagesSQL searches, for many sections at once.
	allVectorsSQL = `
SELECT v.passage_id, v.embedding FROM %s v
WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ANY ($4)`
	sectionsOfSQL = `
SELECT k.id, p.section_id FROM unnest($2::uuid[]) AS k(id)
CROSS JOIN LATERAL (SELECT section_id FROM passages WHERE tenant_id = $1 AND id = k.id LIMIT 1) p`

	nearestSections = 4  // neighbours per section
	nearPassages    = 32 // passages that are read to find them
	// The most vectors that one call compares, and the most sections that it searches a graph for.
	comparedVectors = 1_000_000
	askedGraph      = 200

	scannedTogether = 8   // sections for which reading all vectors once takes less time than searches
	scannedBlock    = 512 // vectors that are compared at a time
)

// nearPassage is the section of a passage and the distance of its vector.
type nearPassage struct {
	Section  uuid.UUID
	Distance float64
}

// vectorsOf is where the vectors of a generation are.
type vectorsOf struct {
	dimension int
	graphs    []uuid.UUID // shards with an index
	bare      []uuid.UUID // shards without one, including the shared one
}

func (v vectorsOf) table() string { return store.VectorTable(v.dimension) }

func (v vectorsOf) shards() []uuid.UUID { return slices.Concat(v.bare, v.graphs) }

// vectors returns where the vectors are; nil if there are none yet.
func (c clustering) vectors(ctx context.Context) (*vectorsOf, error) {
	var v vectorsOf
	err := c.tx.QueryRow(ctx, generationVectorsSQL, c.tenant, c.collection, c.generation).Scan(&v.dimension, &v.graphs, &v.bare)
	v.bare = append(v.bare, uuid.Nil)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the vectors: %w", err)
	}
	return &v, nil
}

// means returns the sections that have vectors, and their vectors.
func (c clustering) means(ctx context.Context, where *vectorsOf, sections []uuid.UUID) ([]uuid.UUID, [][]float32, error) {
	rows, err := c.tx.Query(ctx, fmt.Sprintf(meanVectorsSQL, where.table()), c.tenant, sections, c.generation, where.shards())
	if err != nil {
		return nil, nil, fmt.Errorf("read vectors of sections: %w", err)
	}
	var found []uuid.UUID
	var vectors [][]float32
	var id uuid.UUID
	var v pgvector.HalfVector
	if _, err := pgx.ForEachRow(rows, []any{&id, &v}, func() error {
		found, vectors = append(found, id), append(vectors, v.Slice())
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read vectors of sections: %w", err)
	}
	return found, vectors, nil
}

// nearest relates sections to those with the nearest vectors.
func (c clustering) nearest(ctx context.Context, sections []cluster.PositionedMember) ([]cluster.Edge, error) {
	if len(sections) == 0 {
		return nil, nil
	}
	where, err := c.vectors(ctx)
	if err != nil || where == nil {
		return nil, err
	}
	requested := make([]uuid.UUID, len(sections))
	for i, s := range sections {
		requested[i] = s.ID
	}
	found, vectors, err := c.means(ctx, where, requested)
	if err != nil {
		return nil, err
	}
	out := cluster.NearestEdges(found, vectors, nearestSections)
	// Each graph is searched by itself. If there are graphs, vectors that are in none are left out.
	parts, ask := [][]uuid.UUID{where.bare}, 0
	if len(where.graphs) > 0 {
		parts, ask = slices.Collect(slices.Chunk(where.graphs, 1)), askedGraph/len(where.graphs)
	} else {
		passages, err := store.LivePassages(ctx, c.tx, c.tenant, c.collection)
		if err != nil {
			return nil, err
		}
		ask = int(comparedVectors / max(passages, 1))
	}
	asked := found[:min(len(found), ask)]
	var near [][]nearPassage
	if len(where.graphs) == 0 && len(asked) >= scannedTogether {
		near, err = c.scan(ctx, where, vectors[:len(asked)])
	} else {
		near, err = c.search(ctx, where, parts, vectors[:len(asked)])
	}
	if err != nil {
		return nil, err
	}
	for i, id := range asked {
		seen := map[uuid.UUID]bool{id: true}
		for _, n := range near[i] {
			if !seen[n.Section] && len(seen) <= nearestSections {
				out = append(out, cluster.Edge{A: id, B: n.Section, Relation: cluster.Nearest, Rank: uint8(len(seen) - 1)})
				seen[n.Section] = true
			}
		}
	}
	return out, nil
}

// search finds the passages near to each vector by statements of their own, which may use the
// graphs.
func (c clustering) search(ctx context.Context, where *vectorsOf, parts [][]uuid.UUID, vectors [][]float32) ([][]nearPassage, error) {
	sql := fmt.Sprintf(nearPassagesSQL, where.table())
	out := make([][]nearPassage, len(vectors))
	for i, v := range vectors {
		for _, shards := range parts {
			rows, err := c.tx.Query(ctx, sql, c.tenant, c.collection, c.generation, pgvector.NewHalfVector(v), shards)
			if err != nil {
				return nil, fmt.Errorf("find near passages: %w", err)
			}
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[nearPassage])
			if err != nil {
				return nil, fmt.Errorf("find near passages: %w", err)
			}
			out[i] = append(out[i], found...)
		}
		if len(parts) > 1 {
			slices.SortStableFunc(out[i], func(a, b nearPassage) int { return cmp.Compare(a.Distance, b.Distance) })
			out[i] = out[i][:min(len(out[i]), nearPassages)]
		}
	}
	return out, nil
}

// scan is search for many vectors, without graphs: it reads the collection's vectors once.
func (c clustering) scan(ctx context.Context, where *vectorsOf, vectors [][]float32) ([][]nearPassage, error) {
	tops := make([]*dense.Top, len(vectors))
	for i, v := range vectors {
		tops[i] = dense.NewTop(v, nearPassages)
	}
	block := &dense.Block{IDs: make([]uuid.UUID, scannedBlock), Data: make([]uint16, scannedBlock*where.dimension), Dimension: where.dimension}
	filled := 0
	compare := func() {
		for _, top := range tops {
			top.Scan(0, block, 0, filled)
		}
		filled = 0
	}
	rows, err := c.tx.Query(ctx, fmt.Sprintf(allVectorsSQL, where.table()), c.tenant, c.collection, c.generation, where.bare)
	if err != nil {
		return nil, fmt.Errorf("read the vectors of the collection: %w", err)
	}
	var id uuid.UUID
	var v store.HalfRow
	if _, err := pgx.ForEachRow(rows, []any{&id, &v}, func() error {
		block.Fill(filled, id, v)
		if filled++; filled == scannedBlock {
			compare()
		}
		return ctx.Err()
	}); err != nil {
		return nil, fmt.Errorf("read the vectors of the collection: %w", err)
	}
	compare()
	found := make([][]dense.Neighbour, len(tops))
	passages := map[uuid.UUID]bool{}
	for i, top := range tops {
		found[i] = top.Neighbours()
		for _, n := range found[i] {
			passages[n.ID] = true
		}
	}
	sections, err := c.sectionsOf(ctx, slices.Collect(maps.Keys(passages)))
	if err != nil {
		return nil, err
	}
	out := make([][]nearPassage, len(tops))
	for i := range found {
		for _, n := range found[i] {
			if s, found := sections[n.ID]; found {
				out[i] = append(out[i], nearPassage{Section: s, Distance: -float64(n.Similarity)})
			}
		}
	}
	return out, nil
}

// sectionsOf returns the sections of passages, by passage.
func (c clustering) sectionsOf(ctx context.Context, passages []uuid.UUID) (map[uuid.UUID]uuid.UUID, error) {
	rows, err := c.tx.Query(ctx, sectionsOfSQL, c.tenant, passages)
	if err != nil {
		return nil, fmt.Errorf("read the sections of near passages: %w", err)
	}
	out := make(map[uuid.UUID]uuid.UUID, len(passages))
	var passage, section uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&passage, &section}, func() error {
		out[passage] = section
		return nil
	})
	return out, store.Wrap(err, "read the sections of near passages")
}
