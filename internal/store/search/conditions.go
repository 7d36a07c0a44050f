package search

// This file finds for the lexical index the versions that satisfy conditions on metadata.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	lexicalsearch "github.com/sluice-rag/sluice/internal/lexical/search"
)

const (
	// satisfiesSQL evaluates a condition in a subquery that runs once, whatever the statistics are:
	// without IS TRUE a plan could compare all documents with all rows.
	satisfiesSQL = `(d.live_version_id IN (SELECT m.version_id FROM version_metadata m WHERE m.tenant_id = $1 AND %s)) IS TRUE`

	matchingAllSQL = `
SELECT d.live_version_id FROM documents d
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
  AND ` + satisfiesSQL

	// matchingSQL looks up each of the versions in $2 by its id, whatever the statistics are: the
	// inner query leaves no other plan.
	matchingSQL = `
SELECT asked.id FROM unnest($2::uuid[]) AS asked (id)
WHERE EXISTS (
    SELECT FROM (
        SELECT v.key, v.text_value, v.int_value, v.time_value FROM version_metadata v
        WHERE v.tenant_id = $1 AND v.version_id = asked.id OFFSET 0) AS m
    WHERE %s)`
)

// MatchLexical implements lexicalsearch.Storage.
func (s *SearchStore) MatchLexical(ctx context.Context, tenant, collection uuid.UUID, queries []lexicalsearch.Match) ([][]uuid.UUID, error) {
	batch := &pgx.Batch{}
	out := make([][]uuid.UUID, len(queries))
	for i, m := range queries {
		if !m.All && len(m.Versions) == 0 {
			continue
		}
		sql, args := matchingAllSQL, []any{tenant, collection}
		if !m.All {
			sql, args = matchingSQL, []any{tenant, m.Versions}
		}
		condition, args, err := conditionSQL(m.Number, m.Condition, args)
		if err != nil {
			return nil, err
		}
		batch.Queue(fmt.Sprintf(sql, condition), args...).Query(func(rows pgx.Rows) (err error) {
			out[i], err = pgx.AppendRows(out[i][:0], rows, pgx.RowTo[uuid.UUID])
			return err
		})
	}
	if batch.Len() == 0 {
		return out, nil
	}
	err := s.read(ctx, tenant, collection, func(ctx context.Context, tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return nil, fmt.Errorf("read what satisfies the conditions of a filter in collection %s: %w", collection, err)
	}
	return out, nil
}
