package search

// This file reads what is known of earlier questions.

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

var _ retrieval.History = (*SearchStore)(nil)

// Known implements retrieval.History. It compares all stored questions of the tenant: a sample of
// those that were asked, and those that were imported.
func (s *SearchStore) Known(ctx context.Context, p schema.Principal, space string, vector []float32, model string, k int) ([]bool, error) {
	var out []bool
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT known FROM (
			    SELECT known, vector, question_id::text AS id FROM known_questions WHERE tenant_id = $1 AND known IS NOT NULL AND space = $2
			    UNION ALL
			    SELECT known, vector, encode(question, 'hex') FROM taught_questions WHERE tenant_id = $1 AND model = $5 AND space = $2) AS k
			ORDER BY vector <-> $3, id LIMIT $4`, p.Tenant, space, pgvector.NewVector(vector), k, model)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[bool])
		return err
	})
	return out, store.Wrap(err, "find what is known of earlier questions")
}
