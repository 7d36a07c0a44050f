package search

// This file measures the recall of a collection's approximate search.

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/store"
)

// RecallK is the number of neighbours that Recall compares.
const RecallK = 10

// VectorRecall is the recall of the search of a collection's vectors.
type VectorRecall struct {
	// Indexed is the approximate number of vectors in the HNSW indexes; 0 if there are none and
	// searches are exact.
	Indexed int64
	// Samples is the number of stored vectors whose neighbours were searched for.
	Samples int
	// Recall is the share of the true RecallK nearest vectors, by similarity, that the indexes
	// returned, in [0, 1]; 1 if searches are exact.
	Recall float64
}

const (
	sampleSQL = `
SELECT v.embedding FROM %s v WHERE v.tenant_id = $1 AND v.shard = ANY ($2) ORDER BY random() LIMIT $3`
	graphNearestSQL = `
SELECT -(v.embedding <#> $3::halfvec(%[2]d)) FROM %[1]s v
WHERE v.tenant_id = $1 AND v.shard = $2 ORDER BY v.embedding <#> $3::halfvec(%[2]d) LIMIT $4`
	trueNearestSQL = `
SELECT -(v.embedding <#> $3::halfvec(%[2]d)) AS similarity FROM %[1]s v
WHERE v.tenant_id = $1 AND v.shard = ANY ($2) ORDER BY similarity DESC LIMIT $4`
)

// Recall compares what the indexes of a collection's vectors return with the true nearest vectors,
// for some stored vectors chosen at random. It uses the settings of a search for RecallK hits. It
// reads all indexed vectors once per sample.
func (s *SearchStore) Recall(ctx context.Context, tenant, collection uuid.UUID, samples int) (VectorRecall, error) {
	out := VectorRecall{Recall: 1}
	err := s.db.ReadTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = VectorRecall{Recall: 1}
		p, _, err := locateVectors(ctx, tx, tenant, collection)
		if err != nil || p == nil || len(p.graphs) == 0 {
			return err
		}
		var shards []uuid.UUID
		for _, g := range p.graphs {
			shards = append(shards, g.shard)
			out.Indexed += g.indexed
		}
		table := store.VectorTable(p.dimension)
		rows, err := tx.Query(ctx, fmt.Sprintf(sampleSQL, table), tenant, shards, samples)
		if err != nil {
			return err
		}
		vectors, err := pgx.CollectRows(rows, pgx.RowTo[pgvector.HalfVector])
		if err != nil {
			return fmt.Errorf("take samples: %w", err)
		}
		good, all := 0, 0
		for _, v := range vectors {
			want, err := similarities(tx.Query(ctx, fmt.Sprintf(trueNearestSQL, table, p.dimension), tenant, shards, v, RecallK))
			if err != nil {
				return fmt.Errorf("compare all vectors: %w", err)
			}
			got, err := p.walked(ctx, tx, fmt.Sprintf(graphNearestSQL, table, p.dimension), tenant, v)
			if err != nil {
				return fmt.Errorf("walk the graphs: %w", err)
			}
			all += len(want)
			for _, g := range got {
				// The last digits of a product depend on the order of the additions.
				if g >= want[len(want)-1]-1e-6 {
					good++
				}
			}
		}
		out.Samples = len(vectors)
		if all > 0 {
			out.Recall = float64(good) / float64(all)
		}
		return nil
	})
	if err != nil {
		return VectorRecall{}, fmt.Errorf("measure the recall of collection %s: %w", collection, err)
	}
	return out, nil
}

// walked returns the similarities of the RecallK best hits of all graphs.
func (p *vectorLocation) walked(ctx context.Context, tx pgx.Tx, sql string, tenant uuid.UUID, v pgvector.HalfVector) (out []float64, err error) {
	batch := &pgx.Batch{}
	batch.Queue(walkSQL, p.walkLimits(RecallK)...)
	for _, g := range p.graphs {
		batch.Queue(sql, tenant, g.shard, v, RecallK).Query(func(rows pgx.Rows) error {
			found, err := similarities(rows, nil)
			out = append(out, found...)
			return err
		})
	}
	batch.Queue(endWalkSQL)
	err = tx.SendBatch(ctx, batch).Close()
	slices.SortFunc(out, func(a, b float64) int { return cmp.Compare(b, a) })
	return out[:min(len(out), RecallK)], err
}

func similarities(rows pgx.Rows, err error) ([]float64, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[float64])
}
