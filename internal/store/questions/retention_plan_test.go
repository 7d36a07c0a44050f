package questions

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
	"github.com/sluice-rag/sluice/schema"
)

// TestOldQuestionsAreFoundByIndexes: the search for old questions, retrievals and cached replies,
// every half minute, scans no table, whether few of them are old or most.
func TestOldQuestionsAreFoundByIndexes(t *testing.T) {
	s, owner := storetest.Open(t, store.Options{})
	tenant, collection := schema.NewID(), schema.NewID()
	if err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, 't')`, tenant)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// A question every three minutes, with two calls; every hundredth is rated.
	fill := func(from, to int) {
		t.Helper()
		err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
			for _, sql := range []string{
				`INSERT INTO collections (tenant_id, id, name) VALUES ($1, $2, 'c') ON CONFLICT DO NOTHING`,
				`INSERT INTO questions (tenant_id, id, collection_id, question, plan, key_id, async, state, created_at)
				 SELECT $1, md5('q' || i)::uuid, $2, 'why?', 'naive', $2, false, 'answered', now() - make_interval(mins => 3 * i) FROM generate_series($3::int, $4::int) i`,
				`INSERT INTO retrievals (tenant_id, question_id, round, candidates, trace, created_at)
				 SELECT $1, md5('q' || i)::uuid, 1, '[{"text": "because"}]', '[]', now() - make_interval(mins => 3 * i) FROM generate_series($3::int, $4::int) i WHERE $2::uuid IS NOT NULL`,
				`INSERT INTO llm_calls (tenant_id, question_id, round, step, item, task, provider, model, input_tokens, output_tokens, millis, request_hash, reply, created_at)
				 SELECT $1, md5('q' || i)::uuid, 1, 'answer', n, 'answer', 'p', 'm', 1, 1, 1, '\x01', '{}', now() - make_interval(mins => 3 * i)
				 FROM generate_series($3::int, $4::int) i, generate_series(0, 1) n WHERE $2::uuid IS NOT NULL AND i < 7000`,
				`INSERT INTO ratings (tenant_id, id, question_id, key_id, rating)
				 SELECT $1, gen_random_uuid(), md5('q' || i)::uuid, $2, 'up' FROM generate_series($3::int, $4::int) i WHERE i % 100 = 0`,
				`INSERT INTO llm_cache (tenant_id, key, reply, created_at)
				 SELECT $1, sha256(i::text::bytea), '{}', now() - make_interval(mins => 3 * i) FROM generate_series($3::int, $4::int) i WHERE $2::uuid IS NOT NULL`,
			} {
				args := []any{tenant, collection, from, to}
				if !strings.Contains(sql, "$3") {
					args = args[:2]
				}
				if _, err := tx.Exec(ctx, sql, args...); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Exec(t.Context(), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
	whole := regexp.MustCompile(`Seq Scan on (questions|retrievals|llm_calls|llm_cache)`)
	some := make([]uuid.UUID, 200)
	check := func(when string) {
		t.Helper()
		for what, c := range map[string]struct {
			sql  string
			args []any
		}{
			"old questions":  {oldQuestionsSQL, []any{15, 200}},
			"their removal":  {forgetQuestionsSQL, []any{some, some}},
			"old retrievals": {emptyRetrievalsSQL, []any{15, 200}},
			"cached replies": {forgetCachedSQL, []any{15 * 24 * time.Hour, 100}},
		} {
			if err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				rows, err := tx.Query(ctx, "EXPLAIN "+c.sql, c.args...)
				if err != nil {
					return err
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if plan := strings.Join(lines, "\n"); whole.MatchString(plan) {
					t.Errorf("%s, %s, reads a whole table:\n%s", what, when, plan)
				}
				return err
			}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	fill(1, 7_300) // 7,200 of them in 15 days
	check("with few that are old")
	fill(7_301, 20_000)
	check("with most that are old")
}
