package search

// This file reads the heads that were trained for language models' preferences.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

var _ retrieval.Preferences = (*SearchStore)(nil)

// Preferences implements retrieval.Preferences. It leaves out heads that were measured to predict
// worse than the pack's own reader.
func (s *SearchStore) Preferences(ctx context.Context, p schema.Principal, collection uuid.UUID) ([]retrieval.Preference, error) {
	var out []retrieval.Preference
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT model, graph, questions, weights, bias FROM preferences
			WHERE tenant_id = $1 AND collection_id = $2 AND area >= own_area`, p.Tenant, collection)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (one retrieval.Preference, err error) {
			err = row.Scan(&one.Model, &one.Of, &one.Questions, &one.Head.Weights, &one.Head.Bias)
			return one, err
		})
		return err
	})
	return out, store.Wrap(err, "find what was learnt of language models' preferences")
}
