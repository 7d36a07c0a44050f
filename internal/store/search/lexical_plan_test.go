package search

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	lexicalsearch "github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// The plan of a load is made once for all collections. Whatever the tables had at that time, it
// uses the indexes that lead to one collection or segment.
func TestLexicalLoadPlan(t *testing.T) {
	s, owner := storetest.Open(t, store.Options{})
	tenant, fill := uuid.New(), []string{
		`INSERT INTO spaces (name, dimension) VALUES ('s', 256) ON CONFLICT DO NOTHING`,
		`INSERT INTO collections (tenant_id, id, name, space_id)
		 SELECT $1::uuid, gen_random_uuid(), 'c' || n, (SELECT id FROM spaces WHERE name = 's') FROM generate_series(1, 500) n`,
		`INSERT INTO lexical_segments (tenant_id, id, collection_id, generation, header, documents, passages, bytes)
		 SELECT $1, gen_random_uuid(), id, 1, '', 1, 1, 1 FROM collections`,
		`INSERT INTO lexical_pages (tenant_id, segment_id, page, first_term, last_term, data)
		 SELECT $1, id, n, 'a', 'b', '' FROM lexical_segments, generate_series(0, 19) n`,
		`INSERT INTO lexical_entries (tenant_id, id, collection_id, generation, version_id, dead)
		 SELECT $1, gen_random_uuid(), id, 1, gen_random_uuid(), n % 3 = 0 FROM collections, generate_series(1, 30) n`,
	}
	l := lexicalsearch.Load{Terms: []string{"a"}, Pages: []lexicalsearch.PageKey{{}}, Clusters: true}
	check := func(when string) {
		sql, args := loadSQL(l)
		nulls := strings.Repeat(", NULL", len(args))[2:]
		var plan []string
		err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, `SELECT `+store.OnePlanSQL); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "PREPARE load AS "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
			plan, err = planLines(ctx, tx, "EXPLAIN EXECUTE load ("+nulls+"); DEALLOCATE load", pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.Join(plan, "\n")
		for _, never := range []string{"Seq Scan", "Hash Join", "Merge Join"} {
			if strings.Contains(whole, never) {
				t.Errorf("%s the plan has a %s:\n%s", when, never, whole)
			}
		}
		for table, key := range map[string]string{
			"lexical_segments": "(collection_id = $2)", "lexical_entries": "(collection_id = $2)",
			"lexical_pages": "(segment_id = ", "clusterings": "(collection_id = $2)",
			"lexical_revisions": "(collection_id = $2)", "cluster_members": "(collection_id = $2)",
		} {
			scans := 0
			for i, line := range plan {
				if !strings.Contains(line, " on "+table+" ") && !strings.HasSuffix(line, " on "+table) {
					continue
				}
				scans++
				if !strings.Contains(strings.Join(plan[i:min(i+3, len(plan))], "\n"), key) {
					t.Errorf("%s the plan reads %s other than by %s:\n%s", when, table, key, whole)
				}
			}
			if scans == 0 {
				t.Errorf("%s the plan does not read %s:\n%s", when, table, whole)
			}
		}
	}
	check("Of empty tables")
	err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, 't')`, tenant)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range fill {
			args := []any{tenant}
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
	check("Of tables without statistics")
	if _, err := owner.Exec(t.Context(), `ANALYZE collections, lexical_segments, lexical_pages, lexical_entries, cluster_members, clusterings`); err != nil {
		t.Fatal(err)
	}
	check("Of tables with statistics")
}
