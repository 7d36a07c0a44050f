package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
)

// TestOneVersionIsFoundByIndexes: what purges one version, counts or reads its
// passages, or locks it to be written, reads no table from end to end, with
// statistics of the tables and without.
func TestOneVersionIsFoundByIndexes(t *testing.T) {
	url := localtest.Database(t)
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	owner, err := pgx.Connect(t.Context(), localtest.OwnerURL(t, url))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background()) //nolint:errcheck // a test's
	tenant, collection := schema.NewID(), schema.NewID()
	if err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, 't')`, tenant)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var version uuid.UUID
	if err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`INSERT INTO spaces (name, dimension) VALUES ('s', 256) ON CONFLICT DO NOTHING`,
			`INSERT INTO collections (tenant_id, id, name, space_id) VALUES ($1, $2, 'c', (SELECT id FROM spaces WHERE name = 's'))`,
			`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id)
			 SELECT $1, gen_random_uuid(), $2, n::text, gen_random_uuid() FROM generate_series(1, 1500) n`,
			`INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint)
			 SELECT tenant_id, live_version_id, id, collection_id, 1, 'ready', 'x', 1, 'x' FROM documents WHERE tenant_id = $1 AND collection_id = $2`,
			`INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, body, tokens)
			 SELECT tenant_id, gen_random_uuid(), id, document_id, collection_id, n, repeat('x', 500), 1
			 FROM versions, generate_series(0, 3) n WHERE tenant_id = $1 AND collection_id = $2`,
			`INSERT INTO passages (tenant_id, id, section_id, version_id, collection_id, ordinal, start_byte, end_byte, tokens)
			 SELECT tenant_id, gen_random_uuid(), id, version_id, collection_id, n, 0, 5, 1
			 FROM sections, generate_series(0, 3) n WHERE tenant_id = $1 AND collection_id = $2`,
			`INSERT INTO vectors_256 (tenant_id, collection_id, space_id, passage_id, version_id, embedding)
			 SELECT tenant_id, collection_id, (SELECT id FROM spaces WHERE name = 's'), id, version_id, array_fill(0.5, ARRAY[256])::real[]::halfvec
			 FROM passages WHERE tenant_id = $1 AND collection_id = $2`,
		} {
			var args []any
			if strings.Contains(sql, "$2") {
				args = []any{tenant, collection}
			}
			if _, err := tx.Exec(ctx, sql, args...); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return tx.QueryRow(ctx, `SELECT live_version_id FROM documents ORDER BY id LIMIT 1`).Scan(&version)
	}); err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`Seq Scan on (documents|versions|sections|passages|vectors)`)
	versions, shards := []uuid.UUID{version}, []uuid.UUID{uuid.Nil}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := owner.Exec(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		for what, c := range map[string]struct {
			sql  string
			args []any
		}{
			"purge passages":      {purgePassagesSQL, []any{tenant, versions}},
			"purge sections":      {purgeSectionsSQL, []any{tenant, versions}},
			"purge vectors":       {purgeVectorsSQL("vectors_256"), []any{tenant, versions, shards}},
			"remove a generation": {removePassagesSQL, []any{tenant, versions, 1}},
			"recount":             {recountSQL, []any{tenant, versions, collection}},
			"lock documents":      {holdDocumentsSQL, []any{versions, tenant}},
			"lock versions":       {holdVersionsSQL, []any{versions, tenant}},
		} {
			if err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
				rows, err := tx.Query(ctx, "EXPLAIN "+c.sql, c.args...)
				if err != nil {
					return err
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if plan := strings.Join(lines, "\n"); whole.MatchString(plan) {
					t.Errorf("%s, analyzed %t, reads a whole table:\n%s", what, analyzed, plan)
				}
				return err
			}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}
