package search

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/internal/store/storetest"
	"github.com/sluice-rag/sluice/schema"
)

// TestGraphsAreWalkedForNearestAlone: a collection with an index is searched by it, unless the
// search must be exact. Partitions of other collections are not read.
func TestGraphsAreWalkedForNearestAlone(t *testing.T) {
	s, _ := storetest.Open(t, store.Options{OwnVectorsAbove: 500})
	tenant, collections := schema.NewID(), []uuid.UUID{schema.NewID(), schema.NewID()}
	if err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, 't')`, tenant)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range collections {
		if err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue(`INSERT INTO spaces (name, dimension) VALUES ('s', 256) ON CONFLICT DO NOTHING`)
			batch.Queue(`INSERT INTO collections (tenant_id, id, name, space_id) VALUES ($1, $2::uuid, $2::uuid::text, (SELECT id FROM spaces WHERE name = 's'))`, tenant, c)
			batch.Queue(`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id)
				SELECT $1, gen_random_uuid(), $2, n::text, gen_random_uuid() FROM generate_series(1, 20) n`, tenant, c)
			batch.Queue(`INSERT INTO vectors_256 (tenant_id, collection_id, space_id, passage_id, version_id, embedding)
				SELECT $1, $2, (SELECT id FROM spaces WHERE name = 's'), gen_random_uuid(), d.live_version_id,
				       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 256) WHERE d.id IS NOT NULL AND n > 0)::real[]::vector::halfvec
				FROM documents d, generate_series(1, 100) n WHERE d.collection_id = $2`, tenant, c)
			return tx.SendBatch(ctx, batch).Close()
		}); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			var err error
			if more, err = corpus.New(s).TendVectors(t.Context(), tenant, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	vector := make([]float32, 256)
	vector[0] = 1
	q := dense.NearestQuery{Principal: schema.Principal{Tenant: tenant}, Collection: collections[0], Space: "s", Vector: vector, K: 10}
	for _, filter := range []schema.Filter{nil, {{Key: "year", Op: schema.OpGe, Values: []string{"2024"}}}} {
		q.Filter = filter
		if err := s.ReadTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
			place, _, err := locateVectors(ctx, tx, tenant, q.Collection)
			if err != nil {
				return err
			}
			if len(place.graphs) != 1 || place.graphs[0].indexed != 2000 {
				t.Fatal("there is no index")
			}
			own := store.VectorTable(256) + "_" + strings.ReplaceAll(place.graphs[0].shard.String(), "-", "")
			statement := &search{NearestQuery: q, vectorLocation: *place}
			for _, method := range []struct {
				build  func() (string, []any, error)
				walked bool
			}{
				{statement.checkedSQL, true},
				{statement.uncheckedSQL, true},
				{statement.scanSQL, false},
				{func() (string, []any, error) {
					sql, args := statement.versionsSQL([]uuid.UUID{uuid.New()})
					return sql, args, nil
				}, false},
				{statement.withinSQL, false},
			} {
				sql, args, err := method.build()
				if err != nil {
					return err
				}
				if method.walked {
					if _, err := tx.Exec(ctx, walkSQL, place.walkLimits(q.K)...); err != nil {
						return err
					}
				}
				lines, err := planLines(ctx, tx, "EXPLAIN "+sql, args...)
				if err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, endWalkSQL); err != nil {
					return err
				}
				plan := strings.Join(lines, "\n")
				if strings.Contains(plan, "Index Scan using "+own+"_hnsw") != method.walked {
					t.Errorf("the graph is walked: %t, want %t:\n%s", !method.walked, method.walked, plan)
				}
				for line := range strings.SplitSeq(plan, "\n") {
					if strings.Contains(line, " on vectors_256_") && !strings.Contains(line, own) && !strings.Contains(line, "vectors_256_shared") {
						t.Errorf("another collection's partition is read:\n%s", line)
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := New(s).Recall(t.Context(), tenant, collections[1], 20)
	if err != nil || found.Samples != 20 || found.Indexed != 2000 || found.Recall < 0.9 || found.Recall > 1 {
		t.Errorf("%+v, %v", found, err)
	}
}
