package search

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
	"github.com/sluice-rag/sluice/schema"
)

// TestNearestReadsOneCollectionExactly: with several tenants and collections in the table, a search
// reads the vectors of its own collection, or only of the visible versions, by an index, and sorts
// all of them. It uses no approximate index.
func TestNearestReadsOneCollectionExactly(t *testing.T) {
	s, owner := storetest.Open(t, store.Options{})
	tenants, collections := make([]uuid.UUID, 3), make([]uuid.UUID, 12)
	for i := range collections {
		if i < len(tenants) {
			tenants[i] = schema.NewID()
		}
		collections[i] = schema.NewID()
	}
	tenant, collection := tenants[0], collections[0]
	// Rows of all tenants. Row level security applies to the owner too.
	err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) SELECT id, 't' || n FROM unnest($1::uuid[]) WITH ORDINALITY AS x(id, n)`, tenants)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range collections {
		own := tenants[i%len(tenants)]
		err := s.AsTenant(t.Context(), own, func(ctx context.Context, tx pgx.Tx) error {
			for _, sql := range []string{
				`INSERT INTO spaces (name, dimension) VALUES ('s', 256) ON CONFLICT DO NOTHING`,
				`INSERT INTO collections (tenant_id, id, name, space_id) VALUES ($1, $2::uuid, 'c' || $2::uuid::text, (SELECT id FROM spaces WHERE name = 's'))`,
				`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id)
				 SELECT $1, gen_random_uuid(), $2, n::text, gen_random_uuid() FROM generate_series(1, 50) n`,
				`INSERT INTO vectors_256 SELECT $1, $2, (SELECT id FROM spaces WHERE name = 's'), gen_random_uuid(), d.live_version_id,
				 (SELECT array_agg(random() - 0.5) FROM generate_series(1, 256) WHERE d.id IS NOT NULL)::real[]::vector::halfvec
				 FROM documents d, generate_series(1, 10) n WHERE d.collection_id = $2`,
			} {
				args := []any{own, c}
				if !strings.Contains(sql, "$1") {
					args = nil
				}
				if _, err := tx.Exec(ctx, sql, args...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"vectors_256", "documents", "version_labels", "version_metadata"} {
		if _, err := owner.Exec(t.Context(), "ANALYZE "+table); err != nil {
			t.Fatal(err)
		}
	}
	vector := make([]float32, 256)
	for i := range vector {
		vector[i] = rand.Float32()
	}
	q := dense.NearestQuery{Principal: schema.Principal{Tenant: tenant}, Collection: collection, Space: "s", Vector: vector, K: 10}
	for _, filter := range []schema.Filter{nil, {{Key: "year", Op: schema.OpGe, Values: []string{"2024"}}}} {
		q.Filter = filter
		statement := &search{NearestQuery: q, vectorLocation: vectorLocation{spaceID: 1, dimension: 256, generation: 1}}
		text, args, err := statement.scanSQL()
		if err != nil {
			t.Fatal(err)
		}
		whole := explained(t, s, tenant, "EXPLAIN "+text, args...)
		for _, want := range []string{"on vectors_256_shared v", "collection_id = '" + collection.String(), "space_id = 1", "hashed SubPlan", "Sort Key: (("} {
			if !strings.Contains(whole, want) {
				t.Errorf("the plan lacks %q:\n%s", want, whole)
			}
		}
		if strings.Contains(whole, "Order By:") || strings.Contains(whole, "Seq Scan on vectors") {
			t.Errorf("the plan reads more than the collection, or not exactly:\n%s", whole)
		}
	}
}

// explained returns the plan that an EXPLAIN shows in a transaction of a tenant.
func explained(t *testing.T, s *store.Store, tenant uuid.UUID, sql string, args ...any) string {
	t.Helper()
	var plan []string
	err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		plan, err = planLines(ctx, tx, sql, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// planLines returns the lines of the plan that an EXPLAIN shows.
func planLines(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
