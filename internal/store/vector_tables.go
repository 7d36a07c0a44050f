package store

// This file names the tables of vectors.

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
)

const vectorTablesSQL = `
SELECT c.relname FROM pg_partitioned_table t JOIN pg_class c ON c.oid = t.partrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relname ~ '^vectors_[0-9]+$' ORDER BY c.relname`

// vectorTables caches the names of the tables of vectors in the catalog, one per dimension. A
// running process need not notice one that a migration adds.
type vectorTables struct {
	mu    sync.Mutex
	names []string
}

// VectorTables lists the tables of vectors.
func (s *Store) VectorTables(ctx context.Context, tx pgx.Tx) ([]string, error) {
	return s.vectors.list(ctx, tx)
}

func (v *vectorTables) list(ctx context.Context, tx pgx.Tx) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.names == nil {
		rows, err := tx.Query(ctx, vectorTablesSQL)
		if err != nil {
			return nil, fmt.Errorf("list vector tables: %w", err)
		}
		if v.names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return nil, fmt.Errorf("list vector tables: %w", err)
		}
	}
	return v.names, nil
}

// SharedShard is the shard of vectors that have no partition of their own.
const SharedShard = `'00000000-0000-0000-0000-000000000000'::uuid`

// VectorTable returns the name of the table for a dimension. It does not check that the table
// exists.
func VectorTable(dimension int) string { return "vectors_" + strconv.Itoa(dimension) }
