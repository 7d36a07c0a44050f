// Package storetest opens and fills databases for tests of statements' plans.
package storetest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// Corpus is a collection of 1,500 documents, with 4 sections each and 4 passages in each section.
// Its tables have no statistics.
type Corpus struct {
	Store      *store.Store
	Owner      *pgx.Conn // of the tables
	Tenant, ID uuid.UUID
	Version    uuid.UUID // of one of the documents
}

// Statement is an SQL statement with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Open opens a store on a database of its own, with the right to build vector indexes, and a
// connection of the database's owner.
func Open(t *testing.T, o store.Options) (*store.Store, *pgx.Conn) {
	t.Helper()
	url := localtest.Database(t)
	o.VectorURL = localtest.VectorURL(t, url)
	s, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	owner, err := pgx.Connect(t.Context(), localtest.OwnerURL(t, url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	return s, owner
}

// Filled creates and fills a collection in a database of its own.
func Filled(t *testing.T) Corpus {
	t.Helper()
	s, owner := Open(t, store.Options{})
	c := Corpus{Store: s, Owner: owner, Tenant: schema.NewID(), ID: schema.NewID()}
	if err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, 't')`, c.Tenant)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
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
				args = []any{c.Tenant, c.ID}
			}
			if _, err := tx.Exec(ctx, sql, args...); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return tx.QueryRow(ctx, `SELECT live_version_id FROM documents ORDER BY id LIMIT 1`).Scan(&c.Version)
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// FindByIndexes reports an error for each statement whose plan, with statistics or without, scans a
// whole table that has a row per document, section, passage or vector.
func (c Corpus) FindByIndexes(t *testing.T, statements map[string]Statement) {
	t.Helper()
	whole := regexp.MustCompile(`Seq Scan on (documents|versions|sections|passages|vectors)`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := c.Owner.Exec(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		for what, x := range statements {
			if err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				rows, err := tx.Query(ctx, "EXPLAIN "+x.SQL, x.Args...)
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

// Reads runs a statement within as, and returns how many buffers it read and how many rows it
// found.
func Reads(t *testing.T, as func(context.Context, func(context.Context, pgx.Tx) error) error, sql string, args ...any) (buffers, rows int) {
	t.Helper()
	if err := as(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var plan []struct {
			Plan map[string]any `json:"Plan"`
		}
		if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"+sql, args...).Scan(&plan); err != nil {
			return err
		}
		buffers = int(plan[0].Plan["Shared Hit Blocks"].(float64) + plan[0].Plan["Shared Read Blocks"].(float64))
		rows = int(plan[0].Plan["Actual Rows"].(float64))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return buffers, rows
}
